"""Settings that go together: the presets, and what is usual for a kind of env."""

PRESETS = {
    "default": {},
    "fast": {
        "sync": "steps",
        "envs_per_rank": 8,
        "update_epochs": 6,
    },
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

#: The defaults of the settings are Pong's. What differs for other Atari games, some of which go on for ever while a
#: policy does not press the button, or pay nothing for a hundred games:
ARCADE = {
    "sync": "steps",
    "envs_per_rank": 4,
    "num_steps": 128,
    "learning_rate": 1e-3,
    "anneal_timesteps": 0,
    "gamma": 0.99,
    "update_epochs": 4,
    "minibatch_size": 256,
    "explore": 1.0,
    "ent_coef": 0.01,
}

#: And for environments of Gymnasium, or of one's own:
GYMNASIUM = {
    "sync": "steps",
    "envs_per_rank": 4,
    "num_steps": 128,
    "frame_skip": 1,
    "sticky": 0.0,
    "learning_rate": 1e-3,
    "anneal_timesteps": 0,
    "gamma": 0.99,
    "update_epochs": 10,
    "minibatch_size": 256,
    "ent_coef": 0.0,
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
#: What makes our own policy of sparse inputs, and how it plays.
OURS_ONLY = ("action_logits", "explore")
#: What needs a ratio of probabilities, which REINFORCE lacks.
RATIOS_ONLY = ("explore",)


def usual(env_id):
    """What is usual for an env, where neither a preset nor a flag says more: a dict of settings."""
    if env_id.startswith("ALE/"):
        return {} if env_id.startswith("ALE/Pong-") else dict(ARCADE)
    return dict(GYMNASIUM)


def without_meaning(env_id, policy="usual", method="clipped"):
    """Settings that mean nothing for an env, a policy and a method: names, each with whom it means nothing for."""
    if not env_id.startswith("ALE/"):
        return dict.fromkeys(ARCADE_ONLY, env_id)
    found = dict.fromkeys(ENVIRONMENTS_ONLY, env_id)
    if policy != "usual":
        found |= dict.fromkeys(OURS_ONLY, f"{env_id} with a policy of your own")
    if method == "reinforce":
        found |= dict.fromkeys(RATIOS_ONLY, "--method reinforce")
    return found
