"""Many trainings at once, each on a few ranks of one job, and the settings that they prove best."""
