// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The gradients of known networks: how many elements each tensor has, in the order in which the network declares them.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace perf {

/// ResNet-50 (He et al. 2016) for 1000 classes: convolutions, batch normalisations, one linear layer. 161 tensors.
[[nodiscard]] std::vector<std::int64_t> resnet50();

/// BERT-base (Devlin et al. 2019), uncased, with its pooler. 199 tensors.
[[nodiscard]] std::vector<std::int64_t> bert_base();

/// "resnet50", "bert_base", or the name of a file with one number of elements per line; empty lines and text after a #
/// are ignored. Local. Throws OptionError whose text begins with `option`.
[[nodiscard]] std::vector<std::int64_t> gradient_list(const char* option, const std::string& name);

}  // namespace perf
