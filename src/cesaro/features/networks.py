"""The inputs of a network: columns standardized, labels one-hot, and the action or its probabilities beside them.

Finite actions: `[s, e_a]` for a logged pair and `[s', π(·|s')]` for the next one, which `MLP(actions=A)` turns into the exact
mean of `q(s', a')`. Continuous actions: `[s, a]`, with one draw of `a'`: a network is not linear in its inputs, and their mean
over draws would be the inputs of no pair. More draws are more rows (`Prepared.features_of(block, repeat)`).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro.data import Log
from cesaro.data.values import Values
from cesaro.errors import InputError
from cesaro.features.encoder import MAX_DENSE, Encoder
from cesaro.features.hidden_layer import HiddenLayer
from cesaro.features.maps import EncodedStates, Joint, PerAction, action_probabilities, as_actions
from cesaro.policies import Attached

Float32 = NDArray[np.float32]


class NetworkInputs:
    """A feature map whose features are a network's inputs.

    Attributes:
        size: inputs in all.
        num_actions: finite actions, whose probabilities are the last inputs; 0 where actions are numbers.
        description: in words.
    """

    def __init__(self, state: Encoder, action: Encoder | int) -> None:
        self._state = state
        self._action = action if isinstance(action, Encoder) else None
        self.num_actions = 0 if isinstance(action, Encoder) else action
        self.size = state.size + (self.num_actions or (self._action.size if self._action is not None else 0))
        beside = f"probabilities of {self.num_actions} actions" if self.num_actions else "the action"
        self.description = f"{state.size} inputs of the observation, and {beside}"
        if self.size > MAX_DENSE:
            raise InputError(
                f"{self.size:,} inputs are too many for a network ({self.description}): at most {MAX_DENSE:,} are possible; "
                "group levels, or leave columns out."
            )

    @staticmethod
    def of(log: Log, random_state: int) -> "NetworkInputs":
        """Fitted on the seeded sample of rows that every map is fitted on."""
        rows = log.sample(random_state).rows
        finite = rows.actions.is_discrete
        return NetworkInputs(
            Encoder(rows.observations), len(rows.actions.joint().levels) if finite else Encoder(rows.actions)
        )

    def pairs(self, observations: Values, actions: Values) -> Float32:
        state = self._state(observations)
        if self._action is not None:
            return np.concatenate([state, self._action(actions)], axis=1)
        chosen = np.zeros((len(state), self.num_actions), np.float32)
        chosen[np.arange(len(state)), actions.joint().codes] = 1.0
        return np.concatenate([state, chosen], axis=1)

    def expected(self, observations: Values, policy: Attached, rng: np.random.Generator, draws: int) -> Float32:
        """The next pair's inputs; `draws` matter only to finite actions whose policy samples, as shares."""
        state = self._state(observations)
        if self._action is not None:
            chosen: Any = self._action(as_actions(policy.sample(observations.plain(), rng)))
        else:
            chosen = action_probabilities(observations, policy, self.num_actions, rng, draws).astype(np.float32)
        return np.concatenate([state, chosen], axis=1)

    def hidden(self, layer: HiddenLayer) -> PerAction | Joint:
        """The features that a network with these inputs has in its last hidden layer."""
        if self._action is not None:
            return Joint((self._state, self._action), layer)
        return PerAction(EncodedStates(self._state, layer), self.num_actions)
