"""PPO on EnvPool's Pong with CleanRL's settings. CleanRL's release on PyPI has no EnvPool script."""

from typing import NamedTuple

import envpool
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

from scaling.peers.log import Log, arguments, versions


class Settings(NamedTuple):
    """Hyperparameters. The defaults are those that CleanRL publishes for all Atari games."""

    envs: int = 8
    steps: int = 128
    minibatches: int = 4
    epochs: int = 4
    clip: float = 0.1
    learning_rate: float = 2.5e-4
    total: int = 10_000_000  # agent steps over which the learning rate anneals to zero
    gamma: float = 0.99
    gae_lambda: float = 0.95
    entropy: float = 0.01
    value: float = 0.5
    max_grad_norm: float = 0.5


#: ``pong``: the flags that CleanRL's documentation gives for solving Pong in minutes.
SETTINGS = {"atari": Settings(), "pong": Settings(envs=16, minibatches=8, epochs=3, clip=0.2)}


class Rollout(NamedTuple):
    """Tensors of shape (steps, envs, ...). ``ends[t]``: whether the step before ``t`` ended a game."""

    screens: torch.Tensor
    actions: torch.Tensor
    log_probs: torch.Tensor
    values: torch.Tensor
    rewards: torch.Tensor
    ends: torch.Tensor


def _started(layer, gain):
    """Initialise a layer with orthogonal weights and zero bias."""
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class Network(nn.Module):
    """Three convolutions and 512 units, with a policy head and a value head."""

    def __init__(self, actions):
        super().__init__()
        layers = [nn.Conv2d(4, 32, 8, 4), nn.Conv2d(32, 64, 4, 2), nn.Conv2d(64, 64, 3, 1), nn.Linear(64 * 49, 512)]
        first, second, third, dense = (nn.Sequential(_started(layer, 2**0.5), nn.ReLU()) for layer in layers)
        self.body = nn.Sequential(first, second, third, nn.Flatten(), dense)
        self.policy = _started(nn.Linear(512, actions), 0.01)
        self.value = _started(nn.Linear(512, 1), 1.0)

    def forward(self, screens):
        """Distribution over actions, and values, for uint8 screens."""
        hidden = self.body(screens.float() / 255)
        return Categorical(logits=self.policy(hidden)), self.value(hidden).squeeze(-1)


class Player:
    """Plays the envs with the network's actions."""

    def __init__(self, network, settings, seed, log):
        self._network, self._settings, self._log = network, settings, log
        self._envs = envpool.make_gymnasium(
            "Pong-v5", num_envs=settings.envs, episodic_life=True, reward_clip=True, seed=seed
        )
        self.screens = torch.from_numpy(self._envs.reset()[0])
        self.ends = torch.zeros(settings.envs)
        self.env_steps = 0
        self._scores = np.zeros(settings.envs)

    @torch.no_grad()
    def rollout(self):
        """Play ``steps`` steps of every env. Returns None if the time is over."""
        rows = []
        for _ in range(self._settings.steps):
            policy, values = self._network(self.screens)
            actions = policy.sample()
            before = self.screens, actions, policy.log_prob(actions), values
            rows.append((*before, *self._step(actions)))
            if self._log.steps(self.env_steps):
                return None
        return Rollout(*map(torch.stack, zip(*rows)))

    def _step(self, actions):
        """Step all envs. Returns the rewards, and the ends before the step."""
        ends = self.ends
        screens, rewards, terminated, truncated, info = self._envs.step(actions.numpy().astype(np.int32))
        over = terminated | truncated
        self.env_steps += len(over)
        self._scores += info["reward"]  # not clipped
        for score in self._scores[over]:
            self._log.game(score)
        self._scores[over] = 0
        self.screens, self.ends = torch.from_numpy(screens), torch.from_numpy(over).float()
        return torch.from_numpy(rewards), ends


@torch.no_grad()
def advantages(rollout, player, network, settings):
    """Generalised advantage estimates (steps, envs)."""
    following, ended = network(player.screens)[1], player.ends
    estimates, running = torch.empty_like(rollout.rewards), torch.zeros(settings.envs)
    for t in reversed(range(settings.steps)):
        errors = rollout.rewards[t] + settings.gamma * (1 - ended) * following - rollout.values[t]
        estimates[t] = running = errors + settings.gamma * settings.gae_lambda * (1 - ended) * running
        following, ended = rollout.values[t], rollout.ends[t]
    return estimates


def loss(network, batch, estimates, settings):
    """PPO's clipped loss of a minibatch, with a clipped value loss."""
    policy, values = network(batch.screens)
    ratios = (policy.log_prob(batch.actions) - batch.log_probs).exp()
    scaled = (estimates - estimates.mean()) / (estimates.std() + 1e-8)
    gains = torch.minimum(scaled * ratios, scaled * ratios.clamp(1 - settings.clip, 1 + settings.clip))
    returns = estimates + batch.values
    near = batch.values + (values - batch.values).clamp(-settings.clip, settings.clip)
    misses = torch.maximum((values - returns) ** 2, (near - returns) ** 2)
    return -gains.mean() - settings.entropy * policy.entropy().mean() + settings.value * 0.5 * misses.mean()


def learn(network, optimizer, rollout, estimates, settings):
    """Run all epochs over one rollout."""
    flat = Rollout(*(array.flatten(0, 1) for array in rollout))
    estimates = estimates.flatten()
    for _ in range(settings.epochs):
        for rows in torch.randperm(len(estimates)).chunk(settings.minibatches):
            optimizer.zero_grad()
            loss(network, Rollout(*(array[rows] for array in flat)), estimates[rows], settings).backward()
            nn.utils.clip_grad_norm_(network.parameters(), settings.max_grad_norm)
            optimizer.step()


def main():
    parser = arguments(__doc__)
    parser.add_argument("--settings", choices=SETTINGS, default="atari", help="which of CleanRL's published settings")
    args = parser.parse_args()
    settings = SETTINGS[args.settings]
    log = Log(
        args,
        name=f"EnvPool PPO, CleanRL's settings for {args.settings.capitalize()}, our own re-writing",
        settings=f"{settings.envs} envs, {settings.steps} steps, "
        f"{settings.epochs} epochs, {settings.minibatches} minibatches, clip {settings.clip}",
        versions=versions("envpool", "torch", "numpy"),
    )
    torch.manual_seed(args.seed)
    network = Network(actions=6)
    optimizer = torch.optim.Adam(network.parameters(), eps=1e-5)
    player = Player(network, settings, args.seed, log)
    while True:
        optimizer.param_groups[0]["lr"] = settings.learning_rate * (1 - player.env_steps / settings.total)
        rollout = player.rollout()
        if rollout is None:
            return
        learn(network, optimizer, rollout, advantages(rollout, player, network, settings), settings)


if __name__ == "__main__":
    main()
