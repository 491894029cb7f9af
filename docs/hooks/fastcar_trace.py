"""Write a carsim trace from the FastCar authors' PyTorch code; needs PyTorch and NumPy alone.

Copy this file beside ``inference.py`` of github.com/shawnricecake/fast-car, and record its call::

    from fastcar_trace import Recorder

    recorder = Recorder(model.llm.model, args.cache_percent_list_mlp)
    response = model.generate_video_content_batch(
        [args.prompt], args.cfg, 1, cache_percent_list_mlp=args.cache_percent_list_mlp
    )
    recorder.save("vilau.npz")

``carsim trace info vilau.npz`` checks the file. Hooks only look: they change no bit of the video.
The recorded score is the authors': the mean over heads of <q, k> / sqrt(head size), with the query
before the rotary embedding and the cached key, of the place one frame before, after it. Thresholds
are recorded as the model's arithmetic rounds them. A layer whose threshold is None has no scores.

Simplification: the authors do not decode the last token of a video, as they need no successor.
carsim counts a step for it, and the file repeats the decisions and scores of the step before.
"""

import json
import math

import numpy as np
import torch


class Recorder:
    """Records the decisions and scores of one generated batch.

    Args:
        body: The LLaMA body, ``model.llm.model``; one that has generated nothing yet.
        taus: Threshold of each layer, ``cache_percent_list_mlp``.
        tokens_per_frame: N, 256 in the authors' code.
    """

    def __init__(self, body, taus, tokens_per_frame=256):
        self.body, self.tokens_per_frame = body, tokens_per_frame
        self.dtype = next(body.parameters()).dtype
        self.taus = [None if tau is None else self._rounded(tau) for tau in taus]
        self.prompt_lengths = None
        self.replay = [[] for _ in taus]  # by layer, then by step: bool[B]
        self.tas = [[] for _ in taus]
        self._handles = [body.register_forward_pre_hook(self._begin, with_kwargs=True)]
        for index, layer in enumerate(body.layers):
            if layer.cache_mlp:
                raise ValueError(f"layer {index} has outputs of an earlier video; clear them")
            self._handles.append(layer.register_forward_hook(self._hook_of(index)))

    def save(self, path, n_frames=8, seed=42, command="python inference.py"):
        """Take the hooks off, and write the trace of all rows."""
        for handle in self._handles:
            handle.remove()
        n_steps = n_frames * self.tokens_per_frame
        replay, tas = (
            np.stack([np.stack([*steps, steps[-1]]) for steps in recorded], axis=1)
            for recorded in (self.replay, self.tas)
        )
        if len(replay) != n_steps:
            raise ValueError(f"{len(replay) - 1} steps were decoded, {n_steps - 1} expected")
        rows, config = replay.shape[2], self.body.config
        shape = {
            "name": "VILA-U-7B",
            "n_layers": config.num_hidden_layers,
            "hidden_size": config.hidden_size,
            "n_heads": config.num_attention_heads,
            "n_kv_heads": config.num_key_value_heads,
            "head_dim": config.hidden_size // config.num_attention_heads,
            "ffn_size": config.intermediate_size,
        }
        meta = {
            "producer": "fastcar_trace.py",
            "producer_version": "1",
            "decoded": shape,
            "simulated": shape,
            "n_frames": n_frames,
            "tokens_per_frame": self.tokens_per_frame,
            "prompt_tokens": max(self.prompt_lengths),
            "prompt_lengths": self.prompt_lengths,
            "tau": self.taus,
            "rule": {"kind": "tas", "form": "released"},
            "attention": {"kind": "dense"},
            "seed": seed,
            # The first half of the rows is conditional, the second half blank.
            "guidance_pairs": [[row, row + rows // 2] for row in range(rows // 2)],
            "dtype": str(self.dtype).removeprefix("torch."),
            "mode": "sampled",
            "weights": "VILA-U-7B-256",
            "sampling": {"by": "rqtransformer.generate"},
            "content": {"software": f"torch {torch.__version__}", "last_step": "repeated"},
            "command": command,
        }
        np.savez_compressed(path, replay=replay, tas=tas, meta=np.array(json.dumps(meta)))

    def _rounded(self, tau):
        return float(torch.tensor(float(tau), dtype=self.dtype))

    def _begin(self, body, args, kwargs):
        """Note the lengths of the prompts at the first call, which is the prefill."""
        if self.prompt_lengths is None:
            self.prompt_lengths = kwargs["attention_mask"].sum(dim=1).tolist()

    def _hook_of(self, index):
        def hook(layer, inputs, outputs):
            if inputs[0].shape[1] > 1:  # the prompt never replays
                return
            replay = layer.cache_if_skip_mlp[-1][:, 0].cpu().numpy()
            tas = np.full(len(replay), np.nan, np.float32)
            if len(layer.cache_mlp) > self.tokens_per_frame and self.taus[index] is not None:
                query = layer.self_attn.query_cache[-1]  # [B, H, 1, hd]
                key = outputs[-1][0][:, :, -1 - self.tokens_per_frame].unsqueeze(2)
                score = (query * key).sum(dim=-1) / math.sqrt(query.shape[-1])
                tas = score.mean(dim=1)[:, 0].float().cpu().numpy()
            self.replay[index].append(replay)
            self.tas[index].append(tas)

        return hook
