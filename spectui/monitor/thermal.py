"""How hot the machine is: a processor that is too hot slows down."""

import psutil

from spectui.monitor.readings import Reading


def hottest_c() -> Reading:
    """Highest temperature that a sensor of the host tells, in degrees Celsius."""
    groups = psutil.sensors_temperatures() if hasattr(psutil, "sensors_temperatures") else {}
    values = [sensor.current for group in groups.values() for sensor in group]
    if not values:
        return Reading(None, "the system tells no temperature")
    return Reading(max(values))
