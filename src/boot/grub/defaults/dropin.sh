# Written by cgroup2-migrate: it keeps this host on cgroup v2.
#
# Kernel arguments in /etc/default/grub or /etc/default/grub.d are computed by shell code here, so nothing
# could be taken out of their text. Instead this file, read last, takes the words that ask for cgroup v1 out
# of the finished values each time grub-mkconfig runs. Every other word stays as it is.
# Delete it and run grub-mkconfig again once those files no longer ask for cgroup v1.

# Leaves in c2m_kept the words of $1 that stay. Quotes are respected, as in: dyndbg="file a.c +p"
cgroup2_migrate_filter() {
    c2m_rest=$1 c2m_kept=
    while [ -n "$c2m_rest" ]; do
        c2m_tail=${c2m_rest#"${c2m_rest%%[!$c2m_blank]*}"}
        c2m_gap=${c2m_rest%"$c2m_tail"}
        c2m_rest=$c2m_tail c2m_word= c2m_bare= c2m_state=outside
        while [ -n "$c2m_rest" ]; do
            case $c2m_state:$c2m_rest in
                outside:[$c2m_blank]*) break ;;
                outside:\"*) c2m_piece=\" c2m_text= c2m_state=double ;;
                outside:\'*) c2m_piece=\' c2m_text= c2m_state=single ;;
                double:\"* | single:\'*) c2m_piece=${c2m_rest%"${c2m_rest#?}"} c2m_text= c2m_state=outside ;;
                outside:\\?* | double:\\?*) c2m_piece=${c2m_rest%"${c2m_rest#??}"} c2m_text=${c2m_piece#?} ;;
                outside:\\ | double:\\) c2m_piece=\\ c2m_text=\\ ;;
                double:*) c2m_piece=${c2m_rest%%[\"\\]*} c2m_text=$c2m_piece ;;
                single:*) c2m_piece=${c2m_rest%%\'*} c2m_text=$c2m_piece ;;
                *) c2m_piece=${c2m_rest%%[$c2m_blank\"\'\\]*} c2m_text=$c2m_piece ;;
            esac
            c2m_word=$c2m_word$c2m_piece c2m_bare=$c2m_bare$c2m_text
            c2m_rest=${c2m_rest#"$c2m_piece"}
        done
        case $c2m_bare in
            @PINS@) ;;
            systemd.legacy[-_]systemd[-_]cgroup[-_]controller) ;;
            systemd.legacy[-_]systemd[-_]cgroup[-_]controller=*) ;;
            SYSTEMD[-_]CGROUP[-_]ENABLE[-_]LEGACY[-_]FORCE) ;;
            SYSTEMD[-_]CGROUP[-_]ENABLE[-_]LEGACY[-_]FORCE=*) ;;
            *) c2m_kept=$c2m_kept${c2m_kept:+${c2m_word:+$c2m_gap}}$c2m_word ;;
        esac
    done
}
c2m_blank=$(printf ' \t\n\r.')
c2m_blank=${c2m_blank%.}
if [ -n "${GRUB_CMDLINE_LINUX:-}" ]; then
    cgroup2_migrate_filter "$GRUB_CMDLINE_LINUX"
    GRUB_CMDLINE_LINUX=$c2m_kept
fi
if [ -n "${GRUB_CMDLINE_LINUX_DEFAULT:-}" ]; then
    cgroup2_migrate_filter "$GRUB_CMDLINE_LINUX_DEFAULT"
    GRUB_CMDLINE_LINUX_DEFAULT=$c2m_kept
fi
if [ -n "${GRUB_CMDLINE_LINUX_RECOVERY:-}" ]; then
    cgroup2_migrate_filter "$GRUB_CMDLINE_LINUX_RECOVERY"
    GRUB_CMDLINE_LINUX_RECOVERY=$c2m_kept
fi
@ADDED@unset -f cgroup2_migrate_filter
unset c2m_rest c2m_kept c2m_tail c2m_gap c2m_word c2m_bare c2m_state c2m_piece c2m_text c2m_blank
