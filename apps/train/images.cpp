// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "train/images.hpp"

#include "train/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace train {
namespace {

using lockstep::Code;
using lockstep::DType;
using lockstep::Error;
using lockstep::Shape;
using lockstep::Tensor;

Rows read_rows(const std::string& directory, const std::string& prefix) {
  const std::string image_file = directory + '/' + prefix + "-images-idx3-ubyte.gz";
  const std::string label_file = directory + '/' + prefix + "-labels-idx1-ubyte.gz";
  const Tensor images = lockstep::input::read_idx(image_file);
  const Tensor labels = lockstep::input::read_idx(label_file);
  const Shape& shape = images.shape();
  if (images.dtype() != DType::u8 || shape.rank() != 3 || shape[1] != image_side || shape[2] != image_side) {
    throw Error(Code::invalid_argument,
                fmt::format("{}: the file has an array {}{}; it must be u8[n, 28, 28], n images", image_file,
                            to_string(images.dtype()), to_string(shape)));
  }
  if (labels.dtype() != DType::u8 || labels.shape() != Shape{shape[0]}) {
    throw Error(Code::invalid_argument,
                fmt::format("{}: the file has an array {}{}; it must be u8[{}], one label for each image of {}",
                            label_file, to_string(labels.dtype()), to_string(labels.shape()), shape[0], image_file));
  }
  for (const std::uint8_t label : labels.elements<std::uint8_t>()) {
    if (label >= num_classes)
      throw Error(Code::data_loss, fmt::format("{}: the file has the label {}; labels must be from 0 to {}", label_file,
                                               label, num_classes - 1));
  }
  return {images.reshaped(Shape{shape[0], image_pixels}), labels};
}

std::uint64_t mixed(std::uint64_t word) {
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9u;
  word = (word ^ (word >> 27)) * 0x94d049bb133111ebu;
  return word ^ (word >> 31);
}

/// Noise with a brighter stripe at the place of the class: learnable, and the same on all ranks.
Rows synthetic_rows(std::int64_t count, std::uint64_t seed) {
  Tensor images(DType::u8, Shape{count, image_pixels});
  Tensor labels(DType::u8, Shape{count});
  const auto pixels = images.elements<std::uint8_t>();
  const auto classes = labels.elements<std::uint8_t>();
  for (std::int64_t row = 0; row < count; ++row) {
    const auto key = mixed(seed * 0x9e3779b97f4a7c15u + static_cast<std::uint64_t>(row) + 1);
    const auto label = static_cast<std::uint8_t>(key % num_classes);
    classes[static_cast<std::size_t>(row)] = label;
    for (std::int64_t i = 0; i < image_pixels; ++i) {
      const std::uint64_t noise = mixed(key + static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15u) & 127;
      const bool in_stripe = i / (image_pixels / num_classes) == label;
      pixels[static_cast<std::size_t>(row * image_pixels + i)] =
          static_cast<std::uint8_t>(noise + (in_stripe ? 64 : 0));
    }
  }
  return {images, labels};
}

Rows scaled(Rows rows, const std::shared_ptr<lockstep::MemoryResource>& memory) {
  return {lockstep::input::scale_to_float(std::get<0>(rows), 1.0f / 255.0f, memory), std::get<1>(rows)};
}

}  // namespace

Images load_images(const std::string& source, std::uint64_t seed) {
  if (source == "synthetic") return {synthetic_rows(60'000, seed), synthetic_rows(10'000, seed + 1)};
  return {read_rows(source, "train"), read_rows(source, "t10k")};
}

lockstep::Dataset<Rows> training_batches(const Images& images, std::int64_t global_batch, std::uint64_t seed) {
  return lockstep::Dataset<Rows>::from_tensor_slices(images.training)
      .shuffle(seed)
      .repeat()
      .batch(global_batch, {.drop_remainder = true})
      .map_rows(scaled);
}

lockstep::Dataset<Rows> test_batches(const Images& images, std::int64_t global_batch) {
  return lockstep::Dataset<Rows>::from_tensor_slices(images.test).batch(global_batch).map_rows(scaled);
}

}  // namespace train
