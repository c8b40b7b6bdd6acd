#!/usr/bin/env python3
"""Folders as save_pretrained leaves them, of small models with random weights, for pretrained_test.cpp and train_cli_test.cpp.

  python3 tests/data/make_pretrained.py       # needs torch 2 and transformers; writes pretrained/ beside this file

Every folder has config.json, model.safetensors and expected.npz: words, and what transformers gives for them (in f32, or of
an f64 copy of the model, which differs in the last digits alone). The settings differ from the standard ones, so that
reading the weights without config.json gives other numbers.
"""
import json
import os
import shutil

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import (BertConfig, BertForMaskedLM, BertModel, GPT2Config, GPT2LMHeadModel, GPT2Model, RobertaConfig,
                          RobertaForMaskedLM, RobertaForSequenceClassification, RobertaModel)

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pretrained")
WORDS = 40


def randomize(model, seed):
    """Larger weights than the initial ones: norms and biases too must matter."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in sorted(model.named_parameters()):
        with torch.no_grad():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(1 + 0.2 * noise if parameter.dim() == 1 and name.endswith("weight") else 0.3 * noise)
    return model.eval()


def save(name, model, output, words, **more):
    folder = os.path.join(HERE, name)
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    for extra in ("generation_config.json",):
        if os.path.exists(os.path.join(folder, extra)):
            os.remove(os.path.join(folder, extra))
    with torch.no_grad():
        result = output(model.double(), torch.from_numpy(words))
    np.savez(os.path.join(folder, "expected.npz"), words=words.astype(np.int32), output=result.numpy(), **more)
    return folder


def words(seed, shape, least=0):
    return np.random.default_rng(seed).integers(least, WORDS, shape)


def change_config(folder, **settings):
    path = os.path.join(folder, "config.json")
    with open(path) as file:
        config = json.load(file)
    config.update(settings)
    with open(path, "w") as file:
        json.dump(config, file, indent=2, sort_keys=True)


def gpt2(**settings):
    return GPT2Config(vocab_size=WORDS, n_positions=12, n_embd=16, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0,
                      **settings)


def bert(kind, **settings):
    return kind(vocab_size=WORDS, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=14,
                **settings)


def main():
    torch.manual_seed(0)
    # Names without "transformer.", as GPT2Model saves them: the published gpt2 is such a file.
    save("gpt2", randomize(GPT2Model(gpt2()), 1), lambda m, x: m(x).last_hidden_state @ m.wte.weight.T, words(1, (2, 9)))
    save("gpt2_untied",
         randomize(GPT2LMHeadModel(gpt2(tie_word_embeddings=False, n_inner=24, activation_function="relu",
                                        layer_norm_epsilon=0.05)), 2), lambda m, x: m(x).logits, words(2, (2, 9)))

    model = randomize(BertForMaskedLM(bert(BertConfig, intermediate_size=24, hidden_act="gelu_new", layer_norm_eps=0.05)), 3)
    folder = save("bert_old_names", model, lambda m, x: m(x).logits, words(3, (2, 8)))
    # As the first checkpoints had them, bert-base-uncased among them.
    weights = load_file(os.path.join(folder, "model.safetensors"))
    old = {k.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): v
           for k, v in weights.items()}
    save_file(old, os.path.join(folder, "model.safetensors"), {"format": "pt"})

    settings = dict(intermediate_size=32, layer_norm_eps=0.02, type_vocab_size=1, pad_token_id=1, bos_token_id=0,
                    eos_token_id=2)
    save("roberta", randomize(RobertaModel(bert(RobertaConfig, **settings), add_pooling_layer=False), 4),
         lambda m, x: m(x).last_hidden_state, words(4, (2, 8), 2))
    padded = words(5, (2, 8), 2)
    padded[1, 5:] = 1  # the padding word, which has a position of its own
    padded[0, 0] = 1
    save("roberta_mask", randomize(RobertaForMaskedLM(bert(RobertaConfig, **settings)), 5), lambda m, x: m(x).logits, padded)
    save("roberta_classify", randomize(RobertaForSequenceClassification(bert(RobertaConfig, num_labels=3, **settings)), 6),
         lambda m, x: m(x).logits, words(6, (3, 8), 2))


if __name__ == "__main__":
    main()
