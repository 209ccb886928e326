#!/usr/bin/python3
"""Compares the calendar with an interpreter of its own, over random rules, zones and ranges.

  oracle.py PROGRAM [--cases N] [--seed N]

PROGRAM is built from times.cc beside this file. What a cron text means is spelt out here, day by day
and minute by minute over what the local clock shows; calendar rules are dateutil's rrule; clocks are
Python's zoneinfo. croniter looks at cron texts once more, where it agrees with our page. Nothing is
shared with the C++ code but the page, `Daylight saving` in schedules.md above all."""
import argparse
import datetime
import functools
import random
import subprocess
import sys
import zoneinfo

from croniter import croniter
from dateutil import rrule

DAY = datetime.timedelta(days=1)
SECOND = datetime.timedelta(seconds=1)
EPOCH = datetime.datetime(1970, 1, 1)
UTC = datetime.timezone.utc
MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split()
WEEKDAYS = "SUN MON TUE WED THU FRI SAT".split()
TWO = "SU MO TU WE TH FR SA".split()
# minute, hour, day, month, weekday: least, most, names
FIELDS = [(0, 59, []), (0, 23, []), (1, 31, []), (1, 12, MONTHS), (0, 7, WEEKDAYS)]
HOURLY = {"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@weekly": "0 0 * * 0",
          "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *"}


def seconds(naive):
    return (naive - EPOCH) // SECOND


# Clocks ---------------------------------------------------------------------------------------

class Clock:
    def __init__(self, name):
        self.zone = zoneinfo.ZoneInfo(name)
        self.quarters = {}  # of an hour: their offset; None: it changes in between

    def offset(self, unix):
        """Of the local clock at an instant, in seconds."""
        at = datetime.datetime.fromtimestamp(unix, UTC).astimezone(self.zone)
        return at.utcoffset() // SECOND

    def local(self, unix):
        quarter = unix // 900
        if quarter not in self.quarters:
            begin, end = self.offset(quarter * 900), self.offset(quarter * 900 + 900)
            self.quarters[quarter] = begin if begin == end else None
        offset = self.quarters[quarter]
        if offset is None:
            offset = self.offset(unix)
        return EPOCH + datetime.timedelta(seconds=unix + offset)

    def change(self, low, high):
        """The first instant of a new offset between two instants whose offsets differ."""
        before = self.offset(low)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.offset(middle) == before else (low, middle)
        return high

    def instant(self, naive):
        """The first instant of a local time, or the first after the gap that it lies in."""
        unix = seconds(naive) - naive.replace(tzinfo=self.zone, fold=0).utcoffset() // SECOND
        if self.local(unix) == naive:
            return unix
        low = unix - 26 * 3600  # the clock went forward some time in between
        while self.offset(low) == self.offset(unix):
            low += 3600
        return self.change(low, unix)


@functools.lru_cache(maxsize=None)
def clock(name):
    return Clock(name)


# Cron -----------------------------------------------------------------------------------------

def value(word, least, names):
    return names.index(word.upper()) + least if word.upper() in names else int(word)


def values(text, least, most, names):
    """The values of an item without L and #."""
    text, _, step = text.partition("/")
    if text in "*?":
        first, last = least, most
    elif "-" in text:
        first, last = (value(word, least, names) for word in text.split("-"))
    else:
        first = value(text, least, names)
        last = most if step else first
    every = list(range(least, most + (0 if most == 7 else 1)))  # 7 is 0
    if first <= last:
        found = list(range(first, last + 1))
    else:  # around the end
        found = [v for v in every if v >= first] + [v for v in every if v <= last]
        if most == first == 7:
            found = [7] + [v for v in every if 0 < v <= last]
    return found[::int(step or 1)]


class Cron:
    def __init__(self, text, excepts=False):
        fields = HOURLY.get(text.lower(), text).split()
        self.seconds = set(range(60)) if excepts else {0}
        if len(fields) == 6:
            self.seconds = set()
            for item in fields.pop(0).split(","):
                self.seconds.update(values(item, 0, 59, []))
        self.fields = fields
        self.minutes, self.hours = self.all(0), self.all(1)
        self.months = self.all(3)
        self.elapsed = fields[1][0] in "*?"
        self.day_given = fields[2][0] not in "*?"
        self.weekday_given = fields[4][0] not in "*?"

    def all(self, field):
        found = set()
        for item in self.fields[field].split(","):
            found.update(values(item, *FIELDS[field]))
        return found

    def day_matches(self, day):
        for item in self.fields[2].split(","):
            if item.upper() == "L":
                if (day + DAY).day == 1:
                    return True
            elif day.day in values(item, *FIELDS[2]):
                return True
        return False

    def weekday_matches(self, day):
        weekday = day.isoweekday() % 7
        for item in self.fields[4].split(","):
            if "#" in item:
                name, number = item.split("#")
                if value(name, 0, WEEKDAYS) % 7 == weekday and (day.day - 1) // 7 + 1 == int(number):
                    return True
            elif item[-1] in "lL":
                if value(item[:-1], 0, WEEKDAYS) % 7 == weekday and (day + 7 * DAY).month != day.month:
                    return True
            elif weekday in [v % 7 for v in values(item, *FIELDS[4])]:
                return True
        return False

    @functools.lru_cache(maxsize=100)
    def on(self, day):
        if day.month not in self.months:
            return False
        if self.day_given and self.weekday_given:
            return self.day_matches(day) or self.weekday_matches(day)
        return self.day_matches(day) and self.weekday_matches(day)

    def matches(self, naive):
        return (naive.second in self.seconds and naive.minute in self.minutes
                and naive.hour in self.hours and self.on(naive.date()))

    def written(self, first, last):
        """The local times that it says, from one day to another."""
        while first <= last:
            if self.on(first):
                for hour in sorted(self.hours):
                    for minute in sorted(self.minutes):
                        for second in sorted(self.seconds):
                            yield datetime.datetime.combine(
                                first, datetime.time(hour, minute, second))
            first += DAY


# Cases ----------------------------------------------------------------------------------------

class Case:
    def __init__(self):
        self.cron, self.every, self.at, self.excepts = [], [], [], []
        self.zone, self.start, self.until, self.count = "UTC", "", "", ""
        self.low = self.high = 0

    def line(self):
        keys = [";".join(self.cron), ";".join(self.every), ";".join(self.at),
                ";".join(self.excepts), self.zone, self.start, self.until, self.count,
                self.low, self.high]
        return "\t".join(str(key) for key in keys)


def moment(text, zone):
    """(first instant, last instant, local time) of what stands in at, from, until."""
    here = clock(zone)
    if len(text) == 10:
        naive = datetime.datetime.fromisoformat(text)
        return here.instant(naive), here.instant(naive + DAY) - 1, naive
    at = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    if at.tzinfo is None:
        unix = here.instant(at)
        return unix, unix, at
    unix = seconds(at.astimezone(UTC).replace(tzinfo=None))
    return unix, unix, here.local(unix)


UNITS = {"day": rrule.DAILY, "week": rrule.WEEKLY, "month": rrule.MONTHLY, "year": rrule.YEARLY}
SIZES = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def rrule_weekday(word):
    weekday = getattr(rrule, word[-2:].upper())
    if len(word) == 2:
        return weekday
    return weekday(-1 if word[0] in "lL" else int(word[0]))


def every_written(text, start, first, last):
    """The local times of a calendar rule from `first` to `last`, and some before; `start` is the
    local time of `from`, or None."""
    words = text.split()
    n = int(words.pop(0)) if words[0].isdigit() else 1
    unit = words.pop(0).rstrip("s")
    keys = dict(zip(words[::2], words[1::2]))
    anchor = start or datetime.datetime(first.year - 1, 1, 1)
    times = keys["at"].split(",") if "at" in keys else [anchor.strftime("%H:%M:%S")]
    # Each day by a rule of its own: dateutil takes several of them, such as WE and 5WE, as "and".
    days = [rrule_weekday(word) for word in keys["on"].split(",")] if "on" in keys else [None]
    for time in times:
        hour, minute, second = (int(part) for part in (time.split(":") + ["0"])[:3])
        for day in days:
            more = {"byweekday": day} if day else {}
            rule = rrule.rrule(UNITS[unit], interval=n, wkst=rrule.MO, cache=False,
                               dtstart=datetime.datetime.combine(anchor.date(), datetime.time(0)),
                               until=last, byhour=hour, byminute=minute, bysecond=second, **more)
            yield from rule


def duration(text):
    return int(text[:-1]) * SIZES[text[-1]]


def expected(case):
    here = clock(case.zone)
    low, high, last_of_all = case.low, case.high, case.high
    start = moment(case.start, case.zone) if case.start else None
    first = start[0] if start else low
    if case.until:
        last_of_all = min(high, moment(case.until, case.zone)[1])
    first_day = here.local(first).date() - 3 * DAY
    last_day = here.local(last_of_all).date() + 3 * DAY
    dates = {text for text in case.excepts if len(text) == 10 and text[4] == "-"}
    crons = [Cron(text, True) for text in case.excepts if text not in dates]

    def kept(naive):
        if not dates and not crons:
            return True
        return naive.date().isoformat() not in dates and not any(c.matches(naive) for c in crons)

    found = set()
    for text in case.cron:
        cron = Cron(text)
        if cron.elapsed:
            step = 60 if cron.seconds == {0} and is_whole_minutes(here, first, last_of_all) else 1
            unix = first + -first % step
            while unix <= last_of_all:
                naive = here.local(unix)
                if cron.matches(naive) and kept(naive):
                    found.add(unix)
                unix += step
        else:
            found.update(here.instant(n) for n in cron.written(first_day, last_day) if kept(n))
    for text in case.every:
        words = text.split()
        if words[0][-1] in SIZES and words[0][:-1].isdigit():
            period = duration(words[0])
            base = (start[0] if start else 0) + (duration(words[2]) if len(words) > 1 else 0)
            unix = first + (base - first) % period
            while unix <= last_of_all:
                if kept(here.local(unix)):
                    found.add(unix)
                unix += period
        else:
            last = datetime.datetime.combine(last_day, datetime.time(0))
            for naive in every_written(text, start[2] if start else None, first_day, last):
                if naive.date() >= first_day and kept(naive):
                    found.add(here.instant(naive))
    for text in case.at:
        unix, _, naive = moment(text, case.zone)
        if kept(naive):
            found.add(unix)
    times = sorted(unix for unix in found if first <= unix <= last_of_all)
    if case.count:
        times = times[:int(case.count)]
    return [unix for unix in times if low <= unix <= high]


def is_whole_minutes(here, low, high):
    return here.offset(low) % 60 == 0 and here.offset(high) % 60 == 0


# Random ones ----------------------------------------------------------------------------------

class Draw:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.zones = sorted(name for name in zoneinfo.available_timezones()
                            if all(part[0].isupper() for part in name.split("/")))
        self.popular = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata",
                        "America/St_Johns", "Africa/Casablanca", "Europe/Dublin", "Pacific/Apia",
                        "America/Havana", "America/Santiago", "Asia/Beirut", "UTC",
                        "America/Nuuk", "Antarctica/Troll", "Pacific/Chatham"]

    def chance(self, p):
        return self.random.random() < p

    def word(self, number, least, names):
        if names and self.chance(0.4):
            name = names[(number - least) % len(names)]
            return self.random.choice([name, name.lower(), name.capitalize()])
        return str(number)

    def item(self, field):
        least, most, names = FIELDS[field]
        r = self.random
        kind = r.random()
        a, b = r.randint(least, most), r.randint(least, most)
        if not names and a > b:
            a, b = b, a
        step = r.randint(1, r.choice([2, 5, most - least + 1]))
        if kind < 0.45:
            return self.word(a, least, names)
        if kind < 0.65:
            return self.word(a, least, names) + "-" + self.word(b, least, names)
        if kind < 0.75:
            return f"{self.word(a, least, names)}-{self.word(b, least, names)}/{step}"
        if kind < 0.85:
            return f"{self.word(a, least, names)}/{step}"
        if kind < 0.93:
            return f"*/{step}"
        return r.choice(["*", "?"])

    def field(self, field, star):
        if self.chance(star):
            return self.random.choice("***?")
        text = ",".join(self.item(field) for _ in range(self.random.choice([1, 1, 1, 2, 3])))
        if field == 2 and self.chance(0.15):
            text = self.random.choice(["L", "l", text + ",L"])
        if field == 4 and self.chance(0.3):
            day = self.word(self.random.randint(0, 7), 0, WEEKDAYS)
            place = day + self.random.choice(["L", "#1", "#2", "#3", "#4", "#5"])
            text = self.random.choice([place, text + "," + place])
        return text

    def cron(self, elapsed=None):
        if self.chance(0.03):
            return self.random.choice(list(HOURLY) + ["@Daily"])
        fields = [self.field(0, 0.05), self.field(1, 0.15), self.field(2, 0.6),
                  self.field(3, 0.8), self.field(4, 0.6)]
        if self.chance(0.1):
            fields.insert(0, self.random.choice(["0", "30", "*/20", "7,45", "*/40"]))
        return " ".join(fields)

    def every(self, start):
        r = self.random
        if self.chance(0.3):
            text = r.choice(["1h", "90m", "15m", "6h", "1d", "7h", "3601s", "36h"])
            if self.chance(0.3):
                text += r.choice([" offset 10m", " offset 1s", " offset 14m"])
            return text
        n = r.choice(["", "1 ", "2 ", "3 ", "5 "]) if start else r.choice(["", "1 "])
        unit = r.choice(list(UNITS))
        text = n + unit + ("s" if self.chance(0.4) else "")
        if self.chance(0.6) or not start and unit != "day":
            days = []
            for _ in range(r.choice([1, 1, 2, 3])):
                place = r.choice(["", "1", "2", "3", "4", "5", "L"]) if unit in "month year" else ""
                days.append(place + r.choice(TWO))
            text += " on " + ",".join(days)
        if self.chance(0.7):
            times = [f"{r.randint(0, 23):02}:{r.choice([0, 15, 30, 59]):02}" for _ in range(r.choice([1, 1, 2]))]
            times += ["02:30"] if self.chance(0.2) else []
            text += " at " + ",".join(times)
        return text

    def moment(self, unix, here):
        naive = here.local(unix)
        kind = self.random.random()
        if kind < 0.4:
            return naive.date().isoformat()
        if kind < 0.7:
            return naive.isoformat(timespec="minutes")
        at = datetime.datetime.fromtimestamp(unix, UTC)
        return at.isoformat().replace("+00:00", self.random.choice(["Z", "+00:00"]))

    def middle(self, here):
        """An instant; often one at which clocks are changed."""
        year = self.random.choice([2026, 2026, self.random.randint(1950, 2100)])
        unix = seconds(datetime.datetime(year, 1, 1)) + self.random.randrange(365 * 86400)
        if self.chance(0.7):
            for weeks in range(26):
                low = unix + weeks * 14 * 86400
                if here.offset(low) != here.offset(low + 14 * 86400):
                    return here.change(low, low + 14 * 86400)
        return unix

    def plain(self):
        """One that croniter can look at, too."""
        case = Case()
        fields = [str(self.random.randint(0, 59)), str(self.random.randint(0, 23))]
        fields += [self.item(field) if self.chance(0.4) else "*" for field in (2, 3, 4)]
        case.cron = [" ".join(fields)]
        case.low = self.random.randrange(2_000_000_000)
        case.high = case.low + 200 * 86400
        return case

    def case(self):
        if self.chance(0.1):
            return self.plain()
        r = self.random
        case = Case()
        case.zone = r.choice(self.popular if self.chance(0.6) else self.zones)
        here = clock(case.zone)
        middle = self.middle(here)
        kind = r.random()
        if kind < 0.65:
            case.cron = [self.cron() for _ in range(r.choice([1, 1, 1, 2]))]
        start = self.chance(0.4)
        if kind >= 0.6:
            case.every = [self.every(start)]
        if self.chance(0.1):
            case.at = [self.moment(middle + r.randint(-90000, 90000), here) for _ in range(2)]
        for _ in range(r.choice([0, 0, 0, 1, 2])):
            day = here.local(middle + r.randint(-2, 2) * 86400).date().isoformat()
            case.excepts.append(day if self.chance(0.3) else self.cron())
        dense = any(Cron(text).elapsed or len(text.split()) == 6 for text in case.cron)
        some = sum(len(Cron(t).minutes) * len(Cron(t).hours) * len(Cron(t).seconds) for t in case.cron)
        span = 86400 if dense or some > 100 else r.choice([3, 30, 300, 800]) * 86400
        if some > 20 or any(text[0].isdigit() and text.split()[0][-1] in SIZES for text in case.every):
            span = min(span, 10 * 86400)
        case.low = middle - r.randint(0, span)
        case.high = case.low + span
        if start:
            case.start = self.moment(case.low + r.randint(-span // 2, span // 2), here)
            case.low = max(case.low, moment(case.start, case.zone)[0] + r.choice([0, 0, span // 4]))
            case.high = max(case.high, case.low)
        if self.chance(0.2):
            case.until = self.moment(case.high - r.randint(0, span // 2), here)
        if self.chance(0.2):
            case.count = str(r.choice([1, 2, 5, 10, 50]))
        return case


def check_croniter(case, times):
    """croniter, where it means the same: one text of five plain fields, in UTC."""
    plain = (case.zone == "UTC" and len(case.cron) == 1 and not case.excepts and not case.count
             and not case.every and not case.at and not case.start and not case.until)
    if not plain:
        return False
    text = case.cron[0]
    cron = Cron(text)
    strange = "?" in text or "@" in text or len(text.split()) != 5 or any(
        c in text.upper().replace("JUL", "").replace("JULY", "") for c in "L#")
    # To croniter a field that says all days is not given, whatever it begins with.
    for field, all_days in ((2, 31), (4, 7)):
        days = {day % 7 if field == 4 else day for day in cron.all(field)} if not strange else ()
        if cron.fields[field] != "*" and ("*" in cron.fields[field] or len(days) == all_days):
            return False
    # Of "1/30" it loses March 1, because February has no 31.
    if strange or cron.day_given and max(cron.all(2)) > 28:
        return False
    try:
        rule = croniter(text, EPOCH + datetime.timedelta(seconds=case.low - 1))
        for unix in times[:50]:
            if seconds(rule.get_next(datetime.datetime)) != unix:
                raise SystemExit(f"croniter differs: {case.line()!r} at {unix}")
    except (ValueError, KeyError):
        return False  # a range around the end
    return True


def compare(program, cases):
    """How many were wrong, times that there were, cases that croniter looked at."""
    lines = "".join(case.line() + "\n" for case in cases)
    done = subprocess.run([program], input=lines, capture_output=True, text=True, check=True)
    answers = done.stdout.split("\n")[:-1]
    assert len(answers) == len(cases), (len(answers), len(cases))
    wrong = times = croniters = 0
    for case, answer in zip(cases, answers):
        wanted = expected(case)
        croniters += check_croniter(case, wanted)
        times += len(wanted)
        if answer != " ".join(str(unix) for unix in wanted):
            wrong += 1
            if wrong <= 5:
                explain(case, answer, wanted)
    return wrong, times, croniters


def explain(case, answer, wanted):
    here = clock(case.zone)
    got = [int(unix) for unix in answer.split()] if answer[:1].isdigit() else []
    print(f"case {case.line()!r}")
    print("  calendar:", answer[:200])
    for name, only in [("only there", set(got) - set(wanted)), ("missing", set(wanted) - set(got))]:
        for unix in sorted(only)[:5]:
            print(f"  {name}: {unix} {here.local(unix)} {here.offset(unix)}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    draw = Draw(arguments.seed)
    wrong = times = croniters = done = 0
    while done < arguments.cases:
        cases = [draw.case() for _ in range(min(1000, arguments.cases - done))]
        more = compare(arguments.program, cases)
        wrong, times, croniters = wrong + more[0], times + more[1], croniters + more[2]
        done += len(cases)
        if done % 10_000 == 0:
            print(f"{done} cases, {wrong} wrong", flush=True)
    print(f"{done} cases, {times} times, {croniters} also by croniter, {wrong} wrong")
    sys.exit(1 if wrong else 0)


main()
