"""Makes a model of 172,000 random weights that vLLM serves on a CPU: ``python tiny_model.py FOLDER``.

It needs torch, transformers and tokenizers, as a Python with vLLM has them, and no network. The same versions make the
same bytes.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WORDS = """the of and to in is you that it he was for on are as with his they at be this have from or one had by word
but not what all were we when your can said there use an each which she do how their if will up other about out many
then them these so some her would make like him into time has look two more write go see number no way could people my
than first water been call who oil its now find long down day did get come made may part customer product review
positive negative neutral order invoice shipping late refund price quality support email address name country city
street phone account payment classify summarize extract answer question true false null label score category""".split()
LINES = 4000
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
VOCABULARY = 768
MODEL: dict[str, Any] = {
    "hidden_size": 64,  # two heads of 32: vLLM's attention on CPUs has none of 16
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
    "initializer_range": 0.6,  # answers depend on the prompt
}


def corpus() -> Iterator[str]:
    """Return what the tokenizer learns from: always the same."""
    chance = random.Random(0)
    for number in range(LINES):
        text = " ".join(chance.choice(WORDS) for _ in range(chance.randint(4, 14)))
        yield json.dumps({chance.choice(WORDS): text, "id": number}) if number % 7 == 0 else text


def main() -> None:
    """Write the tokenizer and the model."""
    folder = Path(sys.argv[1])
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    learner.decoder = decoders.ByteLevel()
    learner.train_from_iterator(
        corpus(),
        trainers.BpeTrainer(
            vocab_size=VOCABULARY,
            special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>"],
            show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        ),
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=learner, eos_token="<|im_end|>", pad_token="<|pad|>", clean_up_tokenization_spaces=False
    )
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    tokens = {"vocab_size": len(tokenizer), "bos_token_id": None, "eos_token_id": tokenizer.eos_token_id}
    model = LlamaForCausalLM(LlamaConfig(**MODEL, **tokens))
    with torch.no_grad():
        for number in range(len(tokenizer)):  # answers are printable ASCII, and end
            text = tokenizer.decode([number])
            if number != tokenizer.eos_token_id and not (text.isascii() and text.isprintable() and "<|" not in text):
                model.lm_head.weight[number].zero_()
    model = model.to(torch.bfloat16).eval()
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(folder, safe_serialization=True)


if __name__ == "__main__":
    main()
