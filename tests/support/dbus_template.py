"""A dbusmock template for logind and systemd, with the answers a test gives.

Parameters are {"service": "login1" or "systemd1", METHOD: ANSWER, ...}. An answer {"error": NAME} is raised,
{"silent": SECONDS} does not come for so long, and with {"dies": true} the service ends without an answer.
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
}


def code(method, answer):
    if isinstance(answer, dict) and "error" in answer:
        return f"raise dbus.exceptions.DBusException('as told', name={answer['error']!r})"
    if isinstance(answer, dict) and "silent" in answer:
        return f"import time; time.sleep({answer['silent']})"
    if answer == {"dies": True}:
        return "import os; os._exit(1)"
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
    if "PreparingForShutdown" in parameters:
        mock.AddProperty(MAIN_IFACE, "PreparingForShutdown", bool(parameters["PreparingForShutdown"]))
    if "ScheduledShutdown" in parameters:
        import dbus

        kind, when = parameters["ScheduledShutdown"]
        value = dbus.Struct((kind, dbus.UInt64(when)), signature="st")
        mock.AddProperty(MAIN_IFACE, "ScheduledShutdown", value)
