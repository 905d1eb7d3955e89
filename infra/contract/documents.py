"""The tables of settings, metrics, log fields, reasons and alarms."""

import json

from alarms import SUBJECTS
from model import ALARMS, HANDLER, SETTINGS, bounds
from text import table


def table_of_settings() -> str:
    rows = []
    for name, it in SETTINGS.items():
        said, default = it["meaning"], "none"
        match it["type"]:
            case "flag":
                needs = f"; needs `{it['needs']}`" if "needs" in it else ""
                default, said = f"`{json.dumps(it['default'])}`", f"`true` or `false`: {said}{needs}"
            case "choice" | "duration" | "whole":
                default, said = f"`{it['default']}`" if it["default"] else default, said + bounds(it)
            case "durations":
                said += f"{bounds(it)}; separated by commas, such as `{it['example']}`"
            case "list":
                default, said = it["default"] or default, f"{said}; separated by commas"
            case "json":
                said = f"JSON: {said}; for example `{it['example']}`"
            case _:
                default = "required" if it.get("is_required") else it.get("default") or default
        page = f" ([more]({it['page']}))" if "page" in it else ""
        rows.append((f"`{name}`", default, f"{said}{page}"))
    return table("variable | default | meaning", rows)


def table_of_names(head: str, of: str) -> str:
    """Returns a table of what the handler names, whose first column has the names. Units are in lower case there."""
    return table(head, [(f"`{name}`", *(each.lower() for each in units), said) for name, *units, said in HANDLER[of]])


def table_of_reasons() -> str:
    rows = [(f"[`{name}`](#{name})", later, cause) for name, later, cause in HANDLER["reasons"]]
    rows.append(("[none](#no-reason)", "yes", "the handler failed for days"))
    return table("reason | may succeed later | usual cause", rows)


def table_of_alarms() -> str:
    rows = []
    for name, it in ALARMS.items():
        needed = f"`{it['only_with']}`" if "only_with" in it else ""
        rows.append((f"`{name}`", SUBJECTS[it["of"]], needed, it["severity"], it["goes_off_when"], str(it["above"])))
    return table("alarm | one for each | only with | severity | goes off when | threshold", rows, last="---:")
