"""A dbusmock template for logind and systemd, with the answers a test gives.

Parameters are {"service": "login1" or "systemd1", METHOD: ANSWER, ...}. An answer {"error": NAME} is raised,
{"silent": SECONDS} does not come for so long, and with {"dies": true} the service ends without an answer. That to
RestartUnit is the result of its job, which ends before the answer is sent, and with another one before it. UnitStates
are states of units, by name.
A method that is not named does not exist.
"""

import json
import sys

SYSTEM_BUS = True
SERVICE = json.loads(sys.argv[sys.argv.index("--parameters") + 1])["service"]
BUS_NAME = f"org.freedesktop.{SERVICE}"
MAIN_OBJ = f"/org/freedesktop/{SERVICE}"
MAIN_IFACE = f"org.freedesktop.{SERVICE}.Manager"

SIGNATURES = {
    "ListInhibitors": ("", "a(ssssuu)"),
    "CanReboot": ("", "s"),
    "Reboot": ("b", ""),
    "RebootWithFlags": ("t", ""),
    "GetUnitFileState": ("s", "s"),
    "Subscribe": ("", ""),
    "Reload": ("", ""),
    "RestartUnit": ("ss", "o"),
    "LoadUnit": ("s", "o"),
}


def code(method, answer):
    if isinstance(answer, dict) and "error" in answer:
        return f"raise dbus.exceptions.DBusException('as told', name={answer['error']!r})"
    if isinstance(answer, dict) and "silent" in answer:
        return f"import time; time.sleep({answer['silent']})"
    if answer == {"dies": True}:
        return "import os; os._exit(1)"
    if method == "RestartUnit":
        ended = (
            "self.EmitSignal('org.freedesktop.systemd1.Manager', 'JobRemoved', 'uoss',"
            " [{number}, '/org/freedesktop/systemd1/job/{number}', args[0], {result!r}])\n"
        )
        ret = "ret = dbus.ObjectPath('/org/freedesktop/systemd1/job/7')"
        return ended.format(number=6, result="canceled") + ended.format(number=7, result=answer) + ret
    if isinstance(answer, dict):
        # One answer for each argument; an unknown one is unknown to systemd.
        return (
            f"ret = {answer!r}.get(str(args[0]))\n"
            "if ret is None: raise dbus.exceptions.DBusException('No such file or directory',"
            " name='org.freedesktop.DBus.Error.FileNotFound')"
        )
    if not SIGNATURES[method][1]:
        return ""
    return f"ret = {answer!r}"


def load(mock, parameters):
    for method, answer in parameters.items():
        if method in SIGNATURES:
            mock.AddMethod(MAIN_IFACE, method, *SIGNATURES[method], code(method, answer))
    units = parameters.get("UnitStates", {})
    if units:
        paths = {name: f"/org/freedesktop/systemd1/unit/_{number}" for number, name in enumerate(units)}
        mock.AddMethod(MAIN_IFACE, "LoadUnit", "s", "o", f"ret = {paths!r}[str(args[0])]")
        for name, state in units.items():
            mock.AddObject(paths[name], "org.freedesktop.systemd1.Unit", {"ActiveState": state}, [])
    if "PreparingForShutdown" in parameters:
        mock.AddProperty(MAIN_IFACE, "PreparingForShutdown", bool(parameters["PreparingForShutdown"]))
    if "ScheduledShutdown" in parameters:
        import dbus

        kind, when = parameters["ScheduledShutdown"]
        value = dbus.Struct((kind, dbus.UInt64(when)), signature="st")
        mock.AddProperty(MAIN_IFACE, "ScheduledShutdown", value)
