// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Labelled images: Fashion-MNIST from its files, or synthetic ones.

#pragma once

#include <lockstep/lockstep.hpp>

#include <cstdint>
#include <string>
#include <tuple>

namespace train {

/// Images, u8 [n, 784], and their labels, u8 [n]; as floats in a batch: f32 [n, 784], u8 [n].
using Rows = std::tuple<lockstep::Tensor, lockstep::Tensor>;

struct Images {
  Rows training;
  Rows test;
};

/// `source` is a directory with the four files of Fashion-MNIST (IDX, gzip), or "synthetic". Local. Every rank reads
/// all files; their pages are shared through the page cache, and a batch copies only a replica's own rows. Throws
/// Error(invalid_argument) for a file that is missing or of another kind, Error(data_loss) for a corrupt one.
[[nodiscard]] Images load_images(const std::string& source, std::uint64_t seed);

/// The batches of a global size, image bytes scaled to [0, 1], shuffled again in every pass, without end.
[[nodiscard]] lockstep::Dataset<Rows> training_batches(const Images& images, std::int64_t global_batch,
                                                       std::uint64_t seed);

/// All test images once, the last batch short.
[[nodiscard]] lockstep::Dataset<Rows> test_batches(const Images& images, std::int64_t global_batch);

}  // namespace train
