// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The models of lockstep-train: are their gradients right, and are they the same bits in every replica?

#include "train/model.hpp"
#include "train/convolution.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <limits>
#include <memory>
#include <new>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace train {
namespace {

/// Floats at `shift` lines of 64 bytes after a boundary of 4096.
class Floats {
 public:
  Floats(std::int64_t count, std::size_t shift)
      : count_(count),
        block_(static_cast<float*>(
            ::operator new(static_cast<std::size_t>(count) * sizeof(float) + (shift + 1) * 64, page))),
        data_(block_.get() + shift * 16) {
    std::fill_n(data_, count, std::numeric_limits<float>::quiet_NaN());  // elements that are never written show
  }
  [[nodiscard]] float* data() const { return data_; }
  [[nodiscard]] std::int64_t count() const { return count_; }
  friend bool operator==(const Floats& a, const Floats& b) {
    return a.count_ == b.count_ &&
           std::memcmp(a.data_, b.data_, static_cast<std::size_t>(a.count_) * sizeof(float)) == 0;
  }

 private:
  static constexpr std::align_val_t page{4096};
  struct Delete {
    void operator()(float* block) const { ::operator delete(block, page); }
  };
  std::int64_t count_;
  std::unique_ptr<float, Delete> block_;
  float* data_;
};

/// A model with parameters and a batch of its own, all drawn from fixed seeds, in arrays shifted by `shift` lines.
class Replica {
 public:
  Replica(const std::string& name, std::int64_t n, std::size_t shift = 0)
      : model_(make_model(name)), images_(n * image_pixels, shift), labels_(static_cast<std::size_t>(n)) {
    std::mt19937 random(7);
    for (const ParameterSpec& spec : model_->parameters()) {
      parameters_.emplace_back(spec.element_count(), shift);
      gradients_.emplace_back(spec.element_count(), shift);
      // Not zeros for biases either: their gradients shall not depend on starting at zero.
      std::normal_distribution<float> normal(0, spec.initial_stddev > 0 ? spec.initial_stddev : 0.1F);
      std::generate_n(parameters_.back().data(), spec.element_count(), [&] { return normal(random); });
    }
    std::uniform_real_distribution<float> grey(0, 1);
    std::generate_n(images_.data(), n * image_pixels, [&] { return grey(random); });
    std::generate(labels_.begin(), labels_.end(), [&] { return static_cast<std::uint8_t>(random() % num_classes); });
  }

  double loss_and_gradients(float scale) {
    std::vector<float*> pointers;
    for (const Floats& gradient : gradients_) pointers.push_back(gradient.data());
    ready_.clear();
    ready_gradients_.clear();
    const auto ready = [this](std::size_t k) {
      const Floats& gradient = gradients_[k];
      ready_.push_back(k);
      ready_gradients_.emplace_back(gradient.data(), gradient.data() + gradient.count());
    };
    loss_ = model_->loss_and_gradients(inputs(), images_.data(), labels_.data(), rows(), scale, pointers, ready);
    return loss_;
  }
  std::int64_t correct() { return model_->correct(inputs(), images_.data(), labels_.data(), rows()); }

  [[nodiscard]] std::int64_t rows() const { return static_cast<std::int64_t>(labels_.size()); }
  [[nodiscard]] const std::vector<Floats>& parameters() const { return parameters_; }
  [[nodiscard]] const std::vector<Floats>& gradients() const { return gradients_; }
  /// The parameters whose gradients were declared ready, in this order, and the gradients at that time.
  [[nodiscard]] const std::vector<std::size_t>& ready() const { return ready_; }
  [[nodiscard]] const std::vector<std::vector<float>>& ready_gradients() const { return ready_gradients_; }
  [[nodiscard]] const Floats& images() const { return images_; }
  [[nodiscard]] std::vector<std::uint8_t>& labels() { return labels_; }
  [[nodiscard]] const Model& model() const { return *model_; }
  [[nodiscard]] bool same_results(const Replica& other) const {
    return gradients_ == other.gradients_ && loss_ == other.loss_;
  }

 private:
  [[nodiscard]] std::vector<const float*> inputs() const {
    std::vector<const float*> pointers;
    for (const Floats& parameter : parameters_) pointers.push_back(parameter.data());
    return pointers;
  }

  std::unique_ptr<Model> model_;
  std::vector<Floats> parameters_;
  std::vector<Floats> gradients_;
  Floats images_;
  std::vector<std::uint8_t> labels_;
  std::vector<std::size_t> ready_;
  std::vector<std::vector<float>> ready_gradients_;
  double loss_ = 0;
};

void expect_gradients_ready_from_the_last_parameter_to_the_first(const std::string& name) {
  for (const std::int64_t rows : {0, 200}) {
    Replica replica(name, rows);
    replica.loss_and_gradients(1.0F / 256);
    const std::size_t count = replica.gradients().size();
    ASSERT_EQ(replica.ready().size(), count);
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(replica.ready()[i], count - 1 - i);
      const Floats& gradient = replica.gradients()[count - 1 - i];
      EXPECT_EQ(replica.ready_gradients()[i], std::vector<float>(gradient.data(), gradient.data() + gradient.count()));
    }
  }
}

/// Compares derivatives along some elements of each parameter with central differences of the loss. An odd one out
/// proves nothing, because a ReLU or a maximum may switch within the step; a wrong gradient is wrong nearly everywhere.
/// Few rows have few such switches.
void expect_gradients_match_finite_differences(const std::string& name) {
  Replica replica(name, 3);
  constexpr float scale = 0.25F;
  replica.loss_and_gradients(scale);
  std::vector<std::vector<float>> gradients;
  for (const Floats& gradient : replica.gradients())
    gradients.emplace_back(gradient.data(), gradient.data() + gradient.count());

  std::mt19937 random(3);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    constexpr int attempts = 40;
    int agreeing = 0;
    double largest = 0;
    for (int attempt = 0; attempt < attempts; ++attempt) {
      const auto element = static_cast<std::size_t>(random() % gradients[i].size());
      float& parameter = replica.parameters()[i].data()[element];
      const float before = parameter;
      constexpr float step = 0.0005F;
      parameter = before + step;
      const double above = replica.loss_and_gradients(scale);
      parameter = before - step;
      const double below = replica.loss_and_gradients(scale);
      parameter = before;

      const double expected = static_cast<double>(scale) * (above - below) / (2 * static_cast<double>(step));
      const double actual = static_cast<double>(gradients[i][element]);
      if (std::abs(actual - expected) <= 0.02 * std::abs(expected) + 0.002) ++agreeing;
      largest = std::max(largest, std::abs(expected));
    }
    EXPECT_GE(agreeing, attempts * 3 / 4) << name << ' ' << replica.model().parameters()[i].name;
    EXPECT_GT(largest, 0.01) << name << ' ' << replica.model().parameters()[i].name << ": too flat to prove anything";
  }
}

void expect_same_bits_at_shifted_addresses(const std::string& name) {
  for (const std::int64_t n : {1, 37, 64, 256}) {
    Replica expected(name, n);
    expected.loss_and_gradients(1.0F / 256);
    for (const std::size_t shift : {1U, 2U, 3U, 7U, 32U, 63U}) {
      Replica shifted(name, n, shift);
      shifted.loss_and_gradients(1.0F / 256);
      EXPECT_TRUE(expected.same_results(shifted))
          << name << " n " << n << " shifted by " << shift << " lines of 64 bytes";
    }
  }
}

void expect_same_bits_from_concurrent_models(const std::string& name, int iterations) {
  for (const std::int64_t n : {37, 64}) {
    Replica alone(name, n);
    alone.loss_and_gradients(1.0F / 64);
    const std::int64_t correct_alone = alone.correct();
    std::vector<int> differences(4, 0);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < differences.size(); ++t) {
      threads.emplace_back([&, t] {
        Replica replica(name, n, t);
        for (int i = 0; i < iterations; ++i) {
          replica.loss_and_gradients(1.0F / 64);
          if (!replica.same_results(alone) || replica.correct() != correct_alone) ++differences[t];
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(differences, std::vector<int>(4, 0)) << name << " n " << n;
  }
}

void expect_zero_gradients_of_no_rows(const std::string& name) {
  Replica replica(name, 0);
  EXPECT_EQ(replica.loss_and_gradients(1), 0);
  EXPECT_EQ(replica.correct(), 0);
  for (const Floats& gradient : replica.gradients()) {
    EXPECT_TRUE(std::all_of(gradient.data(), gradient.data() + gradient.count(), [](float x) { return x == 0; }));
  }
}

void expect_parts_to_sum_to_the_whole(const std::string& name) {
  Replica whole(name, 50);
  const double loss = whole.loss_and_gradients(1);
  // Two models that compute 19 and 31 of the rows: what data-parallel training does.
  std::vector<std::vector<double>> sums;
  for (const Floats& gradient : whole.gradients()) sums.emplace_back(static_cast<std::size_t>(gradient.count()), 0.0);
  double sum_of_losses = 0;
  for (const auto& [begin, n] : {std::pair<std::int64_t, std::int64_t>{0, 19}, {19, 31}}) {
    Replica part(name, n);
    std::copy_n(whole.images().data() + begin * image_pixels, n * image_pixels, part.images().data());
    std::copy_n(whole.labels().begin() + begin, n, part.labels().begin());
    sum_of_losses += part.loss_and_gradients(1);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      for (std::size_t j = 0; j < sums[i].size(); ++j) sums[i][j] += static_cast<double>(part.gradients()[i].data()[j]);
    }
  }
  EXPECT_NEAR(sum_of_losses, loss, 1e-4);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    for (std::size_t j = 0; j < sums[i].size(); ++j)
      ASSERT_NEAR(sums[i][j], static_cast<double>(whole.gradients()[i].data()[j]), 1e-4);
  }
}

/// Plain gradient descent on one batch must end up knowing it by heart; this also is a test that `correct` and the
/// gradients agree.
void expect_to_learn_a_batch_by_heart(const std::string& name, int steps) {
  Replica replica(name, 40);
  const double loss_before = replica.loss_and_gradients(1.0F / 40);
  for (int step = 0; step < steps; ++step) {
    replica.loss_and_gradients(1.0F / 40);
    for (std::size_t i = 0; i < replica.parameters().size(); ++i) {
      const Floats& parameter = replica.parameters()[i];
      for (std::int64_t j = 0; j < parameter.count(); ++j)
        parameter.data()[j] -= 0.1F * replica.gradients()[i].data()[j];
    }
  }
  EXPECT_LT(replica.loss_and_gradients(1.0F / 40), 0.2 * loss_before);
  EXPECT_EQ(replica.correct(), 40);
}

void expect_no_further_threads(const std::string& name) {
  const auto threads = [] { return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}); };
  const auto before = threads();
  Replica replica(name, 256);
  replica.loss_and_gradients(1);
  EXPECT_EQ(threads(), before);
}

TEST(Mlp, has_203530_parameters) {
  std::int64_t count = 0;
  const std::unique_ptr<Model> model = make_model("mlp");
  for (const ParameterSpec& spec : model->parameters()) count += spec.element_count();
  EXPECT_EQ(count, 203530);
}
TEST(Mlp, computes_in_the_calling_thread_alone) { expect_no_further_threads("mlp"); }
TEST(Mlp, has_gradients_that_match_finite_differences) { expect_gradients_match_finite_differences("mlp"); }
TEST(Mlp, gives_the_same_bits_at_shifted_addresses) { expect_same_bits_at_shifted_addresses("mlp"); }
TEST(Mlp, gives_the_same_bits_from_four_models_at_once) { expect_same_bits_from_concurrent_models("mlp", 250); }
TEST(Mlp, gives_zero_gradients_for_no_rows) { expect_zero_gradients_of_no_rows("mlp"); }
TEST(Mlp, sums_the_gradients_of_its_rows) { expect_parts_to_sum_to_the_whole("mlp"); }
TEST(Mlp, says_when_gradients_are_final) { expect_gradients_ready_from_the_last_parameter_to_the_first("mlp"); }
TEST(Mlp, learns_a_batch_by_heart) { expect_to_learn_a_batch_by_heart("mlp", 300); }

TEST(Cnn, computes_in_the_calling_thread_alone) { expect_no_further_threads("cnn"); }
TEST(Cnn, has_gradients_that_match_finite_differences) { expect_gradients_match_finite_differences("cnn"); }
TEST(Cnn, gives_the_same_bits_at_shifted_addresses) { expect_same_bits_at_shifted_addresses("cnn"); }
TEST(Cnn, gives_the_same_bits_from_four_models_at_once) { expect_same_bits_from_concurrent_models("cnn", 100); }
TEST(Cnn, gives_zero_gradients_for_no_rows) { expect_zero_gradients_of_no_rows("cnn"); }
TEST(Cnn, sums_the_gradients_of_its_rows) { expect_parts_to_sum_to_the_whole("cnn"); }
TEST(Cnn, says_when_gradients_are_final) { expect_gradients_ready_from_the_last_parameter_to_the_first("cnn"); }
TEST(Cnn, learns_a_batch_by_heart) { expect_to_learn_a_batch_by_heart("cnn", 1500); }

TEST(Convolution, gathers_each_pixel_under_each_tap) {
  constexpr std::int64_t channels = 3;
  constexpr std::int64_t n = 2;
  constexpr std::int64_t side = 12;
  std::vector<float> planes(channels * n * side * side);
  for (std::size_t i = 0; i < planes.size(); ++i) planes[i] = static_cast<float>(i);
  std::vector<float> patches(channels * kernel_taps * n * convolved(side) * convolved(side), -1);
  gather_patches(planes.data(), channels, n, side, patches.data());
  std::size_t next = 0;
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    for (std::int64_t dy = 0; dy < 5; ++dy) {
      for (std::int64_t dx = 0; dx < 5; ++dx) {
        for (std::int64_t image = 0; image < n; ++image) {
          for (std::int64_t y = 0; y < 8; ++y) {
            for (std::int64_t x = 0; x < 8; ++x) {
              ASSERT_EQ(patches[next++], static_cast<float>(((channel * n + image) * side + y + dy) * side + x + dx));
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(next, patches.size());
}

TEST(Models, show_in_the_loss_that_a_parameter_is_not_a_number) {
  for (const std::string name : {"mlp", "cnn"}) {
    Replica replica(name, 4);
    std::fill_n(replica.parameters()[0].data(), replica.parameters()[0].count(),
                std::numeric_limits<float>::quiet_NaN());
    EXPECT_TRUE(std::isnan(replica.loss_and_gradients(1))) << name;
  }
}
TEST(Models, have_no_other_names_than_mlp_and_cnn) { EXPECT_THROW((void)make_model("MLP"), std::invalid_argument); }

}  // namespace
}  // namespace train
