"""Settings that go together: the presets, and the defaults of environments that are no Atari games."""

PRESETS = {
    "default": {},
    "fast": {"sync": "steps", "envs_per_rank": 8},
    # made by hand for Pong: see features/pong.py
    "pong": {"sync": "steps", "envs_per_rank": 8, "features": "pg_mpi.features.pong:Courses"},
    "karpathy": {
        "method": "reinforce",
        "sync": "episode",
        "envs_per_rank": 1,
        "features": "difference",
        "actions": "pair",
        "action_logits": "own",
        "hidden": 200,
        "learning_rate": 1e-3,
        "anneal_timesteps": 0,
        "gamma": 0.99,
    },
}

#: The defaults of the settings are those of all Atari games. Environments of Gymnasium, or of one's own, differ in:
GYMNASIUM = {
    "sync": "steps",
    "envs_per_rank": 4,
    "frame_skip": 1,
    "sticky": 0.0,
    "anneal_timesteps": 0,
    "update_epochs": 10,
    "minibatch_size": 256,
    "ent_coef": 0.0,
    "learning_rate": 1e-3,
    "gamma": 0.99,
    "vf_coef": 0.5,
    "rewards": "scaled",
}

ARCADE_ONLY = (
    "frame_skip",
    "sticky",
    "max_frames",
    "mode",
    "difficulty",
    "life_loss",
    "features",
    "actions",
    "action_logits",
    "explore",
)
ENVIRONMENTS_ONLY = ("normalise", "squash")
#: What makes our own policy of active pixels, and how it plays.
OURS_ONLY = ("tiles", "action_logits", "explore")


def usual(env_id):
    """The settings of an env that differ from the defaults, unless a preset or a flag sets them: a dict."""
    return {} if env_id.startswith("ALE/") else dict(GYMNASIUM)


def without_meaning(env_id, policy="usual", method="clipped"):
    """Settings that mean nothing for an env, a policy and a method: names, each with whom it means nothing for."""
    if not env_id.startswith("ALE/"):
        return dict.fromkeys(ARCADE_ONLY, env_id)
    found = dict.fromkeys(ENVIRONMENTS_ONLY, env_id)
    if policy != "usual":
        found |= dict.fromkeys(OURS_ONLY, f"{env_id} with a policy of your own")
    if method == "reinforce":
        found["explore"] = "--method reinforce"  # it has no ratio of probabilities
    return found
