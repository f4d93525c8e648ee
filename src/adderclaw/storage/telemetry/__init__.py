"""Sinks: functions that receive every event and write it to a log, a file, a table or a service."""
