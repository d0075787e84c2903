"""Calibrate each game once for all unit tests of a process."""

import functools

from pg_mpi.env import action_set, atari_spec, calibration

calibration.find_scene = atari_spec.find_scene = functools.cache(calibration.find_scene)
calibration.find_actions = action_set.find_actions = functools.cache(calibration.find_actions)
