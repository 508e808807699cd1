// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The mlp on GPUs that are not there: does it compute what the host computes, in order with the replica's stream?

#include "train/gpu/mlp.hpp"

#include "support/fake_cublas.hpp"
#include "support/fake_gpus.hpp"
#include "support/fake_train_kernels.hpp"
#include "train/gpu/products.hpp"

#include <lockstep/lockstep.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace train {
namespace {

using lockstep::Device;
using lockstep::DeviceKind;
using lockstep::Tensor;

constexpr Device gpu_of(int index, int logical = 0) { return {DeviceKind::gpu, index, logical}; }

/// Parameters and a batch, drawn from fixed seeds, and what a model makes of them.
class Batch {
 public:
  explicit Batch(std::int64_t n) : images_(lockstep::DType::f32, {n, image_pixels}), labels_(lockstep::DType::u8, {n}) {
    std::mt19937 random(7);
    const std::unique_ptr<Model> model = make_mlp();
    for (const ParameterSpec& spec : model->parameters()) {
      std::normal_distribution<float> normal(0, spec.initial_stddev > 0 ? spec.initial_stddev : 0.1F);
      const auto elements =
          parameters_.emplace_back(lockstep::DType::f32, lockstep::Shape{spec.element_count()}).elements<float>();
      std::generate(elements.begin(), elements.end(), [&] { return normal(random); });
    }
    std::uniform_real_distribution<float> grey(0, 1);
    for (float& pixel : images_.elements<float>()) pixel = grey(random);
    for (std::uint8_t& label : labels_.elements<std::uint8_t>())
      label = static_cast<std::uint8_t>(random() % num_classes);
  }

  [[nodiscard]] std::vector<Tensor>& parameters() { return parameters_; }

  struct Results {
    double loss = 0;
    std::int64_t correct = 0;
    std::vector<std::vector<float>> gradients;
  };
  /// What `model` computes, with all arrays on `device`. `ready` is called with gradients, too.
  using Ready = std::function<void(std::size_t parameter, const std::vector<Tensor>& gradients)>;
  [[nodiscard]] Results results(Model& model, Device device, const Ready& ready = {}) const {
    std::vector<Tensor> parameters;
    std::vector<Tensor> gradients;
    std::vector<const float*> inputs;
    std::vector<float*> outputs;
    for (const Tensor& parameter : parameters_) {
      inputs.push_back(static_cast<const float*>(parameters.emplace_back(parameter.to(device)).data()));
      Tensor unset(lockstep::DType::f32, parameter.shape());
      std::ranges::fill(unset.elements<float>(), std::numeric_limits<float>::quiet_NaN());
      outputs.push_back(static_cast<float*>(gradients.emplace_back(unset.to(device)).data()));
    }
    const Tensor images = images_.to(device);
    const Tensor labels = labels_.to(device);
    const auto* const pixels = static_cast<const float*>(images.data());
    const auto* const classes = static_cast<const std::uint8_t*>(labels.data());
    const std::int64_t n = images_.shape()[0];
    Results results;
    results.loss = model.loss_and_gradients(inputs, pixels, classes, n, 1.0F / 256, outputs, [&](std::size_t k) {
      if (ready) ready(k, gradients);
    });
    results.correct = model.correct(inputs, pixels, classes, n);
    for (const Tensor& gradient : gradients) results.gradients.push_back(on_host(gradient));
    return results;
  }
  [[nodiscard]] static std::vector<float> on_host(const Tensor& tensor) {
    const Tensor here = tensor.to(Device{});
    const auto elements = here.elements<float>();
    return {elements.begin(), elements.end()};
  }

 private:
  std::vector<Tensor> parameters_;
  Tensor images_;
  Tensor labels_;
};

/// Two GPUs, and a cuBLAS; all of it is given back at the end of a test.
class MlpOnGpus : public testing::Test {
 protected:
  void TearDown() override {
    EXPECT_TRUE(gpus_.cuda().wait_for_all());
    EXPECT_EQ(cublas().handles(), 0U);
    for (int device = 0; device < 2; ++device) EXPECT_EQ(gpus_.cuda().used_bytes(device), 0U) << "gpu:" << device;
  }
  [[nodiscard]] test::FakeCublas& cublas() const { return *cublas_; }
  [[nodiscard]] gpu::Backend backend() const {
    return {.cublas = cublas_, .kernels = kernels_, .name = "a fake cuBLAS", .why = {}};
  }
  [[nodiscard]] std::unique_ptr<Model> make(Device device) const { return gpu::make_mlp(device, backend()); }

 private:
  lockstep::test::FakeGpus gpus_{{.devices = 2, .host_access = lockstep::test::HostAccess::allowed}};
  std::shared_ptr<test::FakeCublas> cublas_ = std::make_shared<test::FakeCublas>(gpus_.cuda());
  std::shared_ptr<gpu::Kernels> kernels_ = std::make_shared<test::FakeTrainKernels>(gpus_.cuda());
};

void expect_near(const Batch::Results& expected, const Batch::Results& found, std::int64_t n) {
  EXPECT_NEAR(found.loss, expected.loss, 1e-5 * static_cast<double>(n)) << n << " rows";
  EXPECT_EQ(found.correct, expected.correct) << n << " rows";
  ASSERT_EQ(found.gradients.size(), expected.gradients.size());
  for (std::size_t k = 0; k < expected.gradients.size(); ++k) {
    float largest = 0;
    float worst = 0;
    for (std::size_t i = 0; i < expected.gradients[k].size(); ++i) {
      largest = std::max(largest, std::abs(expected.gradients[k][i]));
      const float difference = std::abs(found.gradients[k][i] - expected.gradients[k][i]);
      worst = difference <= worst ? worst : difference;  // NaN, too
    }
    EXPECT_LE(worst, 1e-5F * largest) << n << " rows, parameter " << k;
  }
}

TEST_F(MlpOnGpus, computes_what_the_host_computes) {
  const auto on_host = make_mlp();
  const auto on_gpu = make(gpu_of(1));
  for (const std::int64_t n : {1, 37, 64, 65, 256}) {
    const Batch batch(n);
    expect_near(batch.results(*on_host, Device{}), batch.results(*on_gpu, gpu_of(1)), n);
  }
}

TEST_F(MlpOnGpus, gives_zero_gradients_for_no_rows) {
  const auto model = make(gpu_of(0));
  const Batch::Results results = Batch(0).results(*model, gpu_of(0));
  EXPECT_EQ(results.loss, 0);
  EXPECT_EQ(results.correct, 0);
  for (const std::vector<float>& gradient : results.gradients)
    EXPECT_TRUE(std::ranges::all_of(gradient, [](float x) { return x == 0; }));
}

TEST_F(MlpOnGpus, shows_in_the_loss_that_a_parameter_is_not_a_number) {
  const auto model = make(gpu_of(0));
  Batch batch(4);
  std::ranges::fill(batch.parameters()[0].elements<float>(), std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(std::isnan(batch.results(*model, gpu_of(0)).loss));
}

TEST_F(MlpOnGpus, says_when_gradients_are_final_on_the_stream) {
  const auto model = make(gpu_of(0));
  for (const std::int64_t n : {0, 70}) {
    const Batch batch(n);
    (void)batch.results(*model, gpu_of(0));
    std::vector<std::size_t> ready;
    std::vector<Tensor> then;
    const Batch::Results results =
        batch.results(*model, gpu_of(0), [&](std::size_t k, const std::vector<Tensor>& gradients) {
          ready.push_back(k);
          then.push_back(gradients[k].clone());  // in order with the stream
        });
    EXPECT_EQ(ready, (std::vector<std::size_t>{3, 2, 1, 0}));
    for (std::size_t i = 0; i < then.size(); ++i)
      EXPECT_EQ(Batch::on_host(then[i]), results.gradients[ready[i]]) << n << " rows";
  }
}

TEST_F(MlpOnGpus, exchanges_nothing_while_kernels_of_a_size_are_first_launched) {
  const auto model = make(gpu_of(0));
  const Batch batch(16);
  const auto products_before_the_first = [&] {
    const int before = cublas().calls().count("sgemm");
    int products = -1;
    (void)batch.results(*model, gpu_of(0), [&](std::size_t, const std::vector<Tensor>&) {
      if (products < 0) products = cublas().calls().count("sgemm") - before;
    });
    return products;
  };
  EXPECT_EQ(products_before_the_first(), 5);
  EXPECT_EQ(products_before_the_first(), 2);
}

TEST_F(MlpOnGpus, gives_the_same_bits_on_every_device_at_once) {
  const Batch batch(37);
  const auto alone = make(gpu_of(0));
  const Batch::Results expected = batch.results(*alone, gpu_of(0));
  const std::vector<Device> devices{gpu_of(0), gpu_of(0, 1), gpu_of(1), gpu_of(1, 1)};
  std::vector<int> differences(devices.size(), 0);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < devices.size(); ++t) {
    threads.emplace_back([&, t] {
      const auto model = make(devices[t]);
      for (int i = 0; i < 5; ++i) {
        const Batch::Results found = batch.results(*model, devices[t]);
        if (found.loss != expected.loss || found.gradients != expected.gradients) ++differences[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(differences, std::vector<int>(devices.size(), 0));
}

void expect_refusal(const std::function<void()>& call, const std::string& text) {
  try {
    call();
    ADD_FAILURE() << "not refused: " << text;
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(error.what(), text);
  }
}

TEST_F(MlpOnGpus, names_what_failed) {
  for (const std::string call : {"create", "set_stream", "set_workspace"}) {
    cublas().calls().fail(call, 1, test::FakeCublas::not_initialized);
    const std::string name = call == "create"       ? "cublasCreate"
                             : call == "set_stream" ? "cublasSetStream"
                                                    : "cublasSetWorkspace";
    expect_refusal([&] { (void)make(gpu_of(0)); }, name + " failed: CUBLAS_STATUS_NOT_INITIALIZED");
  }
  const auto model = make(gpu_of(0));
  cublas().calls().fail("sgemm", 2, test::FakeCublas::execution_failed);
  expect_refusal([&] { (void)Batch(3).results(*model, gpu_of(0)); },
                 "cublasSgemm failed: CUBLAS_STATUS_EXECUTION_FAILED");
}

/// `count` small numbers, whose sums of products have no rounding.
Tensor small_numbers(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> elements(static_cast<std::size_t>(count));
  for (float& element : elements) element = static_cast<float>(random() % 9) - 4;
  return Tensor::from(elements);
}

class ProductsOnGpus : public MlpOnGpus {
 protected:
  /// Element [row, column] of a factor of so many rows and columns.
  static float at(const Tensor& elements, Layout layout, std::int64_t rows, std::int64_t columns, std::int64_t row,
                  std::int64_t column) {
    const std::int64_t place = layout == Layout::plain ? row * columns + column : column * rows + row;
    return elements.elements<float>()[static_cast<std::size_t>(place)];
  }
};

TEST_F(ProductsOnGpus, are_those_of_row_major_matrices_plain_and_transposed) {
  const Device device = gpu_of(0);
  backend().kernels->use(device.index);
  gpu::Products products(device, backend().cublas);
  constexpr std::int64_t m = 5;
  constexpr std::int64_t n = 3;
  constexpr std::int64_t k = 7;
  const Tensor a = small_numbers(m * k, 1);
  const Tensor b = small_numbers(k * n, 2);
  const Tensor a_there = a.to(device);
  const Tensor b_there = b.to(device);
  for (const Layout a_layout : {Layout::plain, Layout::transposed}) {
    for (const Layout b_layout : {Layout::plain, Layout::transposed}) {
      Tensor c = Tensor::uninitialized(lockstep::DType::f32, {m, n}, nullptr, device);
      products.gemm(m, n, k, {static_cast<const float*>(a_there.data()), a_layout},
                    {static_cast<const float*>(b_there.data()), b_layout}, static_cast<float*>(c.data()));
      std::vector<float> expected;
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          float sum = 0;
          for (std::int64_t p = 0; p < k; ++p) sum += at(a, a_layout, m, k, i, p) * at(b, b_layout, k, n, p, j);
          expected.push_back(sum);
        }
      }
      EXPECT_EQ(Batch::on_host(c), expected) << static_cast<char>(a_layout) << static_cast<char>(b_layout);
    }
  }
}

}  // namespace
}  // namespace train
