"""When the jobs of crontabs are due in a year, by croniter, a reader of schedules that knows nothing of dblock.

usage: ticks.py YEAR FILE...

Prints a line for each job: its ticks, as minutes since the year began in UTC. croniter finds the times of a day and the days of the
year; zoneinfo knows the clocks. Where croniter and cron differ, cron's rule stands here:

- Day of month and day of week. croniter takes a day that either names, unless one is a lone *. For cron it is enough that one begins
  with * to take only the days that both name.
- Changes of the clocks. croniter has rules of its own. For cron a line with * in front of minute or hour follows the real time; any
  other runs what is skipped right after the gap, once, and what is repeated the first time.
"""

import sys
from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from croniter import croniter

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)

# croniter knows them, but not which fields they are.
NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


def jobs(path):
    """The fields of each job, and its zone."""
    zone = None
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            name, _, value = line.partition("=")
            if name.strip() == "CRON_TZ":
                zone = ZoneInfo(value.strip().strip("'\""))
            elif line[0] == "@":
                yield NICKNAMES[line.split()[0]].split(), zone
            elif line[0] in "0123456789*":
                yield line.split()[:5], zone


def named(schedule, first, end, day_or=True):
    """The times that croniter finds from the first one to before the end."""
    found = []
    times = croniter(schedule, first - MINUTE, day_or=day_or)
    try:
        while (time := times.get_next(datetime)) < end:
            found.append(time)
    except Exception as error:  # It finds none, and says so.
        if type(error).__name__ != "CroniterBadDateError":
            raise
    return found


@lru_cache(None)
def times_of_day(minute, hour):
    first = datetime(2024, 1, 1)
    return [time - first for time in named(f"{minute} {hour} * * *", first, first + DAY)]


@lru_cache(None)
def days(day, month, weekday, year):
    # Local days reach over the ends of the year in UTC.
    first, end = datetime(year - 1, 12, 31), datetime(year + 1, 1, 2)
    day_or = not day.startswith("*") and not weekday.startswith("*")
    return named(f"0 0 {day} {month} {weekday}", first, end, day_or)


def moments(local, zone, follows_real_time):
    """The moments in UTC at which a job runs that names a local time."""
    before, after = (local.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1))
    if before == after:
        return [local - before]
    if before > after:
        both = [local - before, local - after]
        return both if follows_real_time else both[:1]
    if follows_real_time:
        return []
    end = local - after
    while (end.replace(tzinfo=ZoneInfo("UTC")).astimezone(zone)).utcoffset() != after:
        end += MINUTE
    return [end]


def ticks(fields, zone, year):
    minute, hour, day, month, weekday = fields
    follows_real_time = minute.startswith("*") or hour.startswith("*")
    first = datetime(year, 1, 1)
    times = times_of_day(minute, hour)
    found = set()
    for date in days(day, month, weekday, year):
        begin = date.replace(tzinfo=zone).utcoffset()
        end = (date + DAY).replace(tzinfo=zone, fold=1).utcoffset()
        if begin == end:
            base = date - begin - first
            found.update((base + time) // MINUTE for time in times)
            continue
        for time in times:
            for moment in moments(date + time, zone, follows_real_time):
                found.add((moment - first) // MINUTE)
    minutes = (datetime(year + 1, 1, 1) - first) // MINUTE
    return sorted(tick for tick in found if 0 <= tick < minutes)


for file in sys.argv[2:]:
    for fields, zone in jobs(file):
        print(*ticks(fields, zone, int(sys.argv[1])))
