// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The saved state, and restoring it on the same or another layout.

#include <lockstep/checkpoint/checkpoint.hpp>

#include "support/function_ref.hpp"
#include "support/temporary_directory.hpp"
#include "unit/strategy/strategies.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace lockstep::test {
namespace {

const CheckpointOptions sliced{.parallel_bytes = 1};  // all ranks write

VariableOptions on_read(const std::string& name, VariableAggregation aggregation) {
  return {.name = name, .synchronization = VariableSynchronization::on_read, .aggregation = aggregation};
}

/// A small model with every kind of object that can be tracked.
struct Trained {
  explicit Trained(Strategy& strategy)
      : w(strategy.variable<float>(std::vector<float>(37, 1.0F), {.name = "w"})),
        b(strategy.variable<double>(0.5, {.name = "b"})),
        adam(strategy, {w}),
        loss(strategy, "loss"),
        outside(Generator::from_seed(3)),
        inside([&] {
          const Scope scope = strategy.scope();
          return Generator::from_seed(4);
        }()),
        batches(strategy.experimental_distribute_dataset(Dataset<Tensor>::range(100).shuffle(7).repeat().batch(8))
                    .iterate()) {}

  void step(Strategy& strategy) {
    strategy.run(
        [&](ReplicaContext& replica, const Tensor& batch) {
          float noise = 0;
          inside.uniform(std::span(&noise, 1));
          std::vector<float> gradient(37, noise);
          for (const std::int64_t x : batch.elements<std::int64_t>()) gradient[0] += static_cast<float>(x) * 0.37F;
          outside.uniform(std::span(gradient).subspan(1, 3));
          std::vector<std::span<float>> gradients{gradient};
          loss.update(static_cast<double>(gradient[0]));
          replica.all_reduce(ReduceOp::mean, gradients);
          adam.apply(replica, gradients, 0.01F);
        },
        batches.get_next());
  }
  void track(Checkpoint& checkpoint) {
    checkpoint.track("model", std::tuple(w, b))
        .track("optimizer", adam)
        .track("loss", loss)
        .track("outside", outside)
        .track("inside", inside)
        .track("input", batches);
  }
  /// All state that training depends on, as bits.
  std::vector<double> state() {
    std::vector<double> result;
    for (const float x : w.values()) result.push_back(static_cast<double>(x));
    result.push_back(loss.result());
    result.push_back(static_cast<double>(batches.position().step));
    return result;
  }

  MirroredVariable<float> w;
  MirroredVariable<double> b;
  Adam adam;
  Mean loss;
  Generator outside;
  Generator inside;
  DistributedIterator<Tensor> batches;
};

/// Runs `body` on each rank of a layout, and returns rank 0's result.
std::vector<double> on_layout(const std::vector<int>& counts, FunctionRef<std::vector<double>(Strategy&)> body) {
  std::vector<double> result;
  on_workers(counts, [&](Strategy& strategy) {
    std::vector<double> mine = body(strategy);
    if (strategy.is_chief()) result = std::move(mine);
  });
  return result;
}

TEST(Checkpoint, continues_bit_for_bit_on_any_layout_of_the_same_replicas) {
  const auto uninterrupted = on_layout({4}, [](Strategy& strategy) {
    Trained trained(strategy);
    for (int step = 0; step < 9; ++step) trained.step(strategy);
    return trained.state();
  });
  for (const CheckpointOptions& options : {CheckpointOptions{}, sliced}) {
    for (const std::vector<int>& before : {std::vector<int>{4}, {2, 1, 1}}) {
      const TemporaryDirectory directory;
      on_workers(before, [&](Strategy& strategy) {
        Trained trained(strategy);
        Checkpoint checkpoint(strategy, options);
        trained.track(checkpoint);
        for (int step = 0; step < 5; ++step) trained.step(strategy);
        checkpoint.save(directory.path(), 5);
        trained.step(strategy);
      });
      for (const std::vector<int>& after : {std::vector<int>{4}, {1, 3}, {1, 1, 1, 1}}) {
        const auto resumed = on_layout(after, [&](Strategy& strategy) {
          Trained trained(strategy);
          Checkpoint checkpoint(strategy);
          trained.track(checkpoint);
          EXPECT_EQ(checkpoint.restore_latest(directory.path()), 5);
          for (int step = 5; step < 9; ++step) trained.step(strategy);
          return trained.state();
        });
        EXPECT_EQ(resumed, uninterrupted);
      }
    }
  }
}

TEST(Checkpoint, saves_objects_under_their_names) {
  const TemporaryDirectory directory;
  MirroredStrategy strategy = mirrored(2);
  Trained trained(strategy);
  const auto twin = strategy.variable<float>(2.0F, {.name = "b"});
  Checkpoint checkpoint(strategy);
  trained.track(checkpoint);
  checkpoint.track("twins", std::vector<Variable>{twin, trained.b});
  const std::filesystem::path folder = checkpoint.save(directory.path(), 3);
  EXPECT_EQ(folder, directory.path() / "step-000000000003");
  std::vector<std::string> names;
  for (const auto& [name, tensor] : load_safetensors(folder / "state.safetensors").tensors) names.push_back(name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"loss/loss", "loss/loss.replicas", "model/b", "model/w", "optimizer/adam/steps",
                                      "optimizer/w/mean", "optimizer/w/square", "twins/b", "twins/b_1"}));
}

TEST(Checkpoint, restores_another_number_of_replicas_with_exact_totals) {
  const TemporaryDirectory directory;
  const std::vector<float> sums{0.1F, 7.0F, 1e30F, -3.3333333F};
  on_workers({2, 1}, [&](Strategy& strategy) {
    const auto total = strategy.sync_on_read_variable<float>(sums, on_read("total", VariableAggregation::sum));
    const auto count = strategy.sync_on_read_variable<std::int32_t>(0, on_read("count", VariableAggregation::sum));
    const auto mean = strategy.sync_on_read_variable<double>(0, on_read("mean", VariableAggregation::mean));
    const auto w = strategy.variable<float>(std::vector<float>{1, 2}, {.name = "w"});
    strategy.run([&](ReplicaContext& replica) {
      count.assign(replica.replica_id_in_sync_group() + 5);
      mean.assign(replica.replica_id_in_sync_group() * 1.5);
      total.assign(replica.replica_id_in_sync_group() == 0 ? sums : std::vector<float>(4));
    });
    Checkpoint(strategy).track("all", std::vector<Variable>{total, count, mean, w}).save(directory.path(), 0);
  });
  for (const std::vector<int>& after : {std::vector<int>{1}, {2}, {3, 4}, {5}, {1, 1}}) {
    on_workers(after, [&](Strategy& strategy) {
      const auto total =
          strategy.sync_on_read_variable<float>(std::vector<float>(4), on_read("total", VariableAggregation::sum));
      const auto count = strategy.sync_on_read_variable<std::int32_t>(0, on_read("count", VariableAggregation::sum));
      const auto mean = strategy.sync_on_read_variable<double>(0, on_read("mean", VariableAggregation::mean));
      const auto w = strategy.variable<float>(std::vector<float>{0, 0}, {.name = "w"});
      Checkpoint(strategy).track("all", std::vector<Variable>{total, count, mean, w}).restore(directory.path(), 0);
      EXPECT_EQ(total.values(), sums);
      EXPECT_EQ(count.value(), 18);
      EXPECT_EQ(mean.value(), 1.5);
      for (const auto& copy : copies(w)) EXPECT_EQ(copy, (std::vector<float>{1, 2}));
    });
  }
  const auto plain =
      make_sync_on_read_variable<float>(std::vector<float>(4), on_read("total", VariableAggregation::sum));
  Checkpoint alone;
  alone.track("all/total", plain);
  alone.restore(directory.path() / "step-000000000000", {.names = RestoredNames::tracked});
  EXPECT_EQ(plain.values(), sums) << "without a strategy";
  alone.save(directory.path(), 1);
  on_workers({2}, [&](Strategy& strategy) {
    const auto total =
        strategy.sync_on_read_variable<float>(std::vector<float>(4), on_read("total", VariableAggregation::sum));
    Checkpoint(strategy).track("all/total", total).restore(directory.path(), 1);
    EXPECT_EQ(total.values(), sums) << "from a file of a plain variable";
    EXPECT_EQ(copies(total).front()[1], 3.5F) << "each copy gets its share";
  });
}

TEST(Checkpoint, restores_files_of_other_programs) {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "model.safetensors";
  save_safetensors(file, {{{"w", Tensor::from(std::vector<float>{1, 2, 3})}, {"other", Tensor::scalar(1)}}, {}});
  MirroredStrategy strategy = mirrored(2);
  const auto w = strategy.variable<float>(std::vector<float>(3), {.name = "anything"});
  Checkpoint checkpoint(strategy);
  checkpoint.track("w", w);
  EXPECT_EQ(checkpoint.restore(file, {.names = RestoredNames::tracked}), -1);
  for (const auto& copy : copies(w)) EXPECT_EQ(copy, (std::vector<float>{1, 2, 3}));
}

TEST(Checkpoint, keeps_the_last_checkpoints_and_replaces_one_of_the_same_step) {
  const TemporaryDirectory directory;
  on_workers({1, 1}, [&](Strategy& strategy) {
    const auto w = strategy.variable<float>(0.0F, {.name = "w"});
    Checkpoint checkpoint(strategy, {.keep_last = 2});
    checkpoint.track("w", w);
    EXPECT_EQ(checkpoint.restore_latest(directory.path() / "none"), std::nullopt);
    for (const int step : {10, 9, 30, 20, 30}) {
      w.assign(static_cast<float>(step + 1));
      checkpoint.save(directory.path(), step);
      w.assign(0.0F);
      EXPECT_EQ(checkpoint.restore(directory.path(), step), step);
      EXPECT_EQ(w.value(), static_cast<float>(step + 1));
    }
    EXPECT_EQ(Checkpoint::steps(directory.path()), (std::vector<std::int64_t>{20, 30}));
    EXPECT_EQ(checkpoint.restore_latest(directory.path()), 30);
  });
  EXPECT_EQ(files_in(directory.path()), (std::vector<std::string>{"step-000000000020", "step-000000000030"}));
  EXPECT_EQ(Checkpoint::latest(directory.path()), directory.path() / "step-000000000030");
  EXPECT_EQ(Checkpoint::latest(directory.path() / "none"), std::nullopt);
}

TEST(Checkpoint, ignores_and_removes_the_folders_of_a_killed_job) {
  const TemporaryDirectory directory;
  for (const char* name : {".unfinished-000000000007-0123456789abcdef", ".removed-step-000000000001"}) {
    std::filesystem::create_directories(directory.path() / name);
    directory.write(std::string(name) + "/state.safetensors", "half of a file");
  }
  std::filesystem::create_directories(directory.path() / "step-000000000099");  // without a manifest
  std::filesystem::create_directories(directory.path() / "step-notes");
  MirroredStrategy strategy = mirrored(1);
  Checkpoint checkpoint(strategy);
  checkpoint.track("w", strategy.variable<float>(1.0F));
  EXPECT_EQ(checkpoint.restore_latest(directory.path()), std::nullopt);
  checkpoint.save(directory.path(), 3);
  EXPECT_EQ(checkpoint.restore_latest(directory.path()), 3);
  EXPECT_EQ(files_in(directory.path()),
            (std::vector<std::string>{"step-000000000003", "step-000000000099", "step-notes"}));
}

TEST(Checkpoint, warns_of_later_steps_that_have_no_manifest) {
  const TemporaryDirectory directory;
  on_workers({1, 1}, [&](Strategy& strategy) {
    Checkpoint checkpoint(strategy);
    checkpoint.track("w", strategy.variable<float>(1.0F));
    const auto log_of_restoring = [&](std::optional<std::int64_t> expected) {
      Communicator communicator = strategy.communicator();
      communicator.barrier();
      if (strategy.is_chief()) testing::internal::CaptureStderr();
      communicator.barrier();
      EXPECT_EQ(checkpoint.restore_latest(directory.path()), expected);
      communicator.barrier();
      return strategy.is_chief() ? testing::internal::GetCapturedStderr() : std::string();
    };
    for (const int step : {1, 10}) checkpoint.save(directory.path(), step);
    if (strategy.is_chief()) std::filesystem::remove(directory.path() / "step-000000000001" / "manifest.json");
    EXPECT_EQ(log_of_restoring(10), "") << "step 1 would not have been restored";
    if (strategy.is_chief()) {
      std::filesystem::create_directories(directory.path() / "step-000000000020");
      std::filesystem::create_directories(directory.path() / "step-000000000030");
      directory.write("step-000000000030/state.safetensors", "half of a file");
    }
    std::string log = log_of_restoring(10);
    if (strategy.is_chief()) {
      EXPECT_NE(log.find(directory.path().string() + ": skipping steps 20, 30 without manifest.json"),
                std::string::npos)
          << log;
      EXPECT_NE(log.find("restoring step 10 instead"), std::string::npos) << log;
      EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
      std::filesystem::remove_all(directory.path() / "step-000000000010");
    }
    log = log_of_restoring(std::nullopt);
    if (strategy.is_chief()) {
      EXPECT_NE(log.find("there is no other checkpoint"), std::string::npos) << log;
    }
  });
}

TEST(Checkpoint, refuses_to_resume_from_a_folder_of_other_things) {
  const TemporaryDirectory directory;
  on_workers({1, 1}, [&](Strategy& strategy) {
    Communicator communicator = strategy.communicator();
    Checkpoint checkpoint(strategy);
    checkpoint.track("w", strategy.variable<float>(1.0F));
    const auto refused = [&](const std::vector<std::string>& parts) {
      communicator.barrier();
      expect_error(Code::invalid_argument, parts, [&] { checkpoint.restore_latest(directory.path()); });
      communicator.barrier();
    };
    if (strategy.is_chief()) directory.write(".hidden", "");
    communicator.barrier();
    EXPECT_EQ(checkpoint.restore_latest(directory.path()), std::nullopt);
    if (strategy.is_chief()) directory.write("thesis.txt", "");
    refused({directory.path().string() + " has no checkpoints", "\"thesis.txt\""});
    checkpoint.save(directory.path(), 5);
    EXPECT_EQ(checkpoint.restore_latest(directory.path()), 5);
    if (strategy.is_chief()) {
      std::filesystem::create_directories(directory.path() / "step-000000000007");
      directory.write("step-000000000007/notes", "");
    }
    refused({"step-000000000007 is not a checkpoint", "no manifest.json, but \"notes\""});
  });
}

TEST(Checkpoint, refuses_an_empty_directory_before_it_writes) {
  on_workers({1, 1}, [](Strategy& strategy) {
    Checkpoint checkpoint(strategy);
    checkpoint.track("w", strategy.variable<float>(1.0F));
    const std::vector<std::string> parts{"the directory is \"\"", "\".\" for the current one"};
    expect_error(Code::invalid_argument, parts, [&] { checkpoint.save("", 1); });
    expect_error(Code::invalid_argument, parts, [&] { (void)checkpoint.save_async("", 1); });
    expect_error(Code::invalid_argument, parts, [&] { checkpoint.restore("", 1); });
    expect_error(Code::invalid_argument, parts, [&] { checkpoint.restore_latest(""); });
    expect_error(Code::invalid_argument, {"restore: the path is \"\""}, [&] { checkpoint.restore(""); });
    EXPECT_FALSE(std::filesystem::exists("step-000000000001"));
  });
}

TEST(Checkpoint, refuses_to_restore_a_folder_without_a_manifest) {
  const TemporaryDirectory directory;
  on_workers({1, 1}, [&](Strategy& strategy) {
    Checkpoint checkpoint(strategy);
    checkpoint.track("w", strategy.variable<float>(1.0F));
    const std::string folder = checkpoint.save(directory.path(), 1);
    expect_error(Code::invalid_argument,
                 {directory.path().string() + " is not the folder of a checkpoint: it has no manifest.json",
                  "restore(directory, step)", "restore_latest(directory)"},
                 [&] { checkpoint.restore(directory.path()); });
    strategy.communicator().barrier();
    if (strategy.is_chief()) std::filesystem::remove(folder + "/manifest.json");
    strategy.communicator().barrier();
    expect_error(Code::invalid_argument, {folder + " is not the folder of a checkpoint", "that was completed"},
                 [&] { checkpoint.restore(folder); });
  });
}

TEST(Checkpoint, refuses_variables_of_another_strategy) {
  MirroredStrategy strategy = mirrored(2);
  MirroredStrategy other = mirrored(2);
  const auto w = other.variable<float>(1.0F, {.name = "w"});
  Checkpoint checkpoint(strategy);
  expect_error(
      Code::invalid_argument,
      {"track: \"weights\" is variable \"w\", which MirroredStrategy", "this Checkpoint is of another strategy"},
      [&] { checkpoint.track("weights", w); });
  expect_error(Code::invalid_argument, {"track: \"model/w\" is variable \"w\""},
               [&] { checkpoint.track("model", std::vector{w}); });
  Checkpoint without;
  expect_error(Code::invalid_argument, {"this Checkpoint has no strategy"}, [&] { without.track("weights", w); });
  Checkpoint own(other);
  EXPECT_NO_THROW(own.track("weights", w));
}

TEST(Checkpoint, saved_in_the_background_has_the_state_at_the_time_of_the_call) {
  for (const CheckpointOptions& options : {CheckpointOptions{}, sliced}) {
    const TemporaryDirectory directory;
    on_workers({1, 2}, [&](Strategy& strategy) {
      const auto w = strategy.variable<float>(std::vector<float>(1000, 1.0F), {.name = "w"});
      const auto sum = strategy.sync_on_read_variable<float>(4.0F, on_read("sum", VariableAggregation::sum));
      sum.assign(6.0F);
      Checkpoint checkpoint(strategy, options);
      checkpoint.track("w", w).track("sum", sum);
      for (const int step : {1, 2}) {
        w.assign(std::vector<float>(1000, static_cast<float>(step)));
        PendingSave pending = checkpoint.save_async(directory.path(), step);
        w.assign(std::vector<float>(1000, -1.0F));
        sum.assign(0.0F);
        expect_error(Code::failed_precondition, {"in progress", "wait()"},
                     [&] { checkpoint.save(directory.path(), 7); });
        expect_error(Code::failed_precondition, {"in progress"}, [&] { checkpoint.restore(directory.path(), 7); });
        EXPECT_EQ(pending.wait(), pending.wait());
        checkpoint.restore(directory.path(), step);
        EXPECT_EQ(w.values(), std::vector<float>(1000, static_cast<float>(step)));
        EXPECT_EQ(sum.value(), 6.0F);
      }
    });
  }
}

TEST(Checkpoint, a_generator_created_in_scope_continues_each_replicas_stream) {
  const TemporaryDirectory directory;
  const auto draw = [](Strategy& strategy, Generator& generator) {
    return strategy.run([&](ReplicaContext& replica) {
      std::vector<std::uint32_t> words(static_cast<std::size_t>(replica.replica_id_in_sync_group()) + 1);
      generator.uniform_full_int(std::span(words));
      return words.back();
    });
  };
  std::vector<std::uint32_t> expected;
  {
    MirroredStrategy strategy = mirrored(3);
    const Scope scope = strategy.scope();
    Generator generator = Generator::from_seed(9);
    Checkpoint checkpoint(strategy);
    checkpoint.track("random", generator);
    static_cast<void>(draw(strategy, generator));
    checkpoint.save(directory.path(), 1);
    expected = components(draw(strategy, generator));
    checkpoint.restore(directory.path(), 1);
    EXPECT_EQ(components(draw(strategy, generator)), expected);
  }
  on_workers({1, 2}, [&](Strategy& strategy) {
    const Scope scope = strategy.scope();
    Generator generator = Generator::from_seed(1);
    Checkpoint checkpoint(strategy);
    checkpoint.track("random", generator);
    checkpoint.restore(directory.path(), 1);
    const auto drawn = draw(strategy, generator);
    for (int i = 0; i < drawn.size(); ++i)
      EXPECT_EQ(drawn.component(i), expected[static_cast<std::size_t>(drawn.first_replica() + i)]);
  });
}

}  // namespace
}  // namespace lockstep::test
