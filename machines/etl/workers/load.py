"""Loads an order into the warehouse, or reports a day. The task comes on standard input."""
import json
import os
import sys

task = json.load(sys.stdin)
if not os.environ["DB_PASSWORD"]:
    sys.exit("the warehouse takes nobody without a password")
if os.environ["DFSMR_ACTION"].endswith("report.day"):
    print(json.dumps({"transition": "ok", "output": {"day": task["nodeParams"].get("day")}}))
else:
    print(f"loading {task['instanceParams']['order']}")
    print(json.dumps({"transition": "ok"}))
