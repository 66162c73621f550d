#!/bin/sh
# Runs inside the guest's root tree while its image is built: everything a package or an administrator would have
# done on a real machine. GRUB's own tools of the suite make the boot files; they are handed out in /boot-code.
set -eu
root_uuid=$1
root_device=$2
grub_partition=$3

mask_what_costs_boot_time() {
    for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service \
        fstrim.timer systemd-tmpfiles-clean.timer getty@tty1.service serial-getty@ttyS0.service \
        dev-hugepages.mount sys-kernel-debug.mount sys-kernel-tracing.mount sys-kernel-config.mount \
        sys-fs-fuse-connections.mount proc-sys-fs-binfmt_misc.automount systemd-pstore.service \
        systemd-binfmt.service systemd-update-utmp.service systemd-update-utmp-runlevel.service \
        systemd-random-seed.service systemd-hwdb-update.service systemd-firstboot.service \
        systemd-sysusers.service systemd-repart.service ldconfig.service systemd-journal-catalog-update.service \
        systemd-update-done.service systemd-machine-id-commit.service kmod-static-nodes.service \
        modprobe@.service systemd-network-generator.service systemd-networkd.service getty-static.service \
        systemd-tpm2-setup.service systemd-tpm2-setup-early.service systemd-pcrphase.service; do
        ln -sfn /dev/null "/etc/systemd/system/$unit"
    done
}

give_the_machine_an_identity() {
    : >/etc/machine-id
    systemd-machine-id-setup
    systemctl enable guest-network.service
    chmod 700 /root /root/.ssh
    chmod 600 /root/.ssh/authorized_keys
}

# There is no disk behind the tree yet, so grub-probe could not answer; once booted, the real one does.
with_grub_probe_stub() {
    mv /usr/sbin/grub-probe /usr/sbin/grub-probe.real
    cat >/usr/sbin/grub-probe <<STUB
#!/bin/sh
case "\$*" in
*--target=device*) echo $root_device ;;
*--target=fs_uuid*) echo $root_uuid ;;
*--target=fs_label*) echo root ;;
*--target=fs*) echo ext2 ;;
*--target=partmap*) echo gpt ;;
*--target=compatibility_hint*) echo hd0,gpt2 ;;
*--target=hints_string*) echo "--hint-bios=hd0,gpt2" ;;
*--target=partuuid*) : ;;
*--target=abstraction*) : ;;
*--target=drive*) echo "(hd0,gpt2)" ;;
esac
STUB
    chmod 755 /usr/sbin/grub-probe
    "$@"
    mv /usr/sbin/grub-probe.real /usr/sbin/grub-probe
}

make_boot_files() {
    mkdir -p /boot/grub/i386-pc /boot-code
    cp /usr/lib/grub/i386-pc/*.mod /usr/lib/grub/i386-pc/*.lst /boot/grub/i386-pc/
    grub-mkimage -O i386-pc -p "($grub_partition)/boot/grub" -o /boot-code/core.img biosdisk part_gpt ext2
    cp /usr/lib/grub/i386-pc/boot.img /boot-code/
    update-initramfs -u -k all
    with_grub_probe_stub update-grub
    cp -L /boot/vmlinuz-* /boot-code/vmlinuz
    cp -L /boot/initrd.img-* /boot-code/initrd
}

mask_what_costs_boot_time
give_the_machine_an_identity
make_boot_files
: >/etc/resolv.conf
rm -f /prepare.sh
