// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Failures: every rank gets the same error with file, tensor and reason, and nothing has changed.

#include <lockstep/checkpoint/checkpoint.hpp>

#include "support/function_ref.hpp"
#include "support/size_limit.hpp"
#include "support/temporary_directory.hpp"
#include "unit/strategy/strategies.hpp"

#include <sys/stat.h>

#include <cstdint>
#include <mutex>
#include <optional>

namespace lockstep::test {
namespace {

/// Runs a job with two variables, a counter as an optimizer has it, and a checkpoint of them at step 1. `harm` damages
/// the checkpoint's folder; then all ranks restore it.
struct Job {
  explicit Job(Strategy& strategy, std::int64_t size = 3)
      : w(strategy.variable<float>(std::vector<float>(static_cast<std::size_t>(size), 1.0F), {.name = "w"})),
        n(strategy.variable<std::int64_t>(1, {.name = "n"})),
        random(Generator::from_seed(1)),
        checkpoint(strategy) {
    checkpoint.track("w", w).track("n", n).track("random", random);
  }
  [[nodiscard]] bool is_untouched(float value) const {
    return n.value() == static_cast<std::int64_t>(value) &&
           w.values() == std::vector<float>(w.values().size(), value) && random.state().common == 100;
  }
  void change(float value) {
    w.assign(std::vector<float>(w.values().size(), value));
    n.assign(static_cast<std::int64_t>(value));
    random.skip(100);
  }

  MirroredVariable<float> w;
  MirroredVariable<std::int64_t> n;
  Generator random;
  std::optional<Generator> inside;  // created in a scope
  Checkpoint checkpoint;
};

void expect_refused(
    Code code, const std::vector<std::string>& parts, FunctionRef<void(const std::filesystem::path& folder)> harm,
    FunctionRef<void(Job&, Strategy&)> prepare = [](Job&, Strategy&) {}) {
  const TemporaryDirectory directory;
  on_workers({1, 2}, [&](Strategy& strategy) {
    Communicator communicator = strategy.communicator();
    Job job(strategy);
    const auto folder = job.checkpoint.save(directory.path(), 1);
    if (strategy.is_chief()) harm(folder);
    communicator.barrier();
    job.change(5);
    prepare(job, strategy);
    try {
      job.checkpoint.restore(folder);
      ADD_FAILURE() << "restored";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      for (const std::string& part : parts)
        EXPECT_NE(error.text().find(part), std::string::npos) << part << " is missing in: " << error.what();
      EXPECT_NE(error.text().find("rank 0"), std::string::npos) << error.what();
    }
    EXPECT_TRUE(job.is_untouched(5)) << "nothing changes";
    communicator.barrier();
  });
}

std::string content_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

/// Flips a bit of the byte at `place`; a negative `place` counts from the end.
void flip(const std::filesystem::path& file, std::int64_t place) {
  std::string content = content_of(file);
  char& byte =
      content.at(static_cast<std::size_t>(place >= 0 ? place : static_cast<std::int64_t>(content.size()) + place));
  byte = static_cast<char>(byte ^ 4);
  std::ofstream(file, std::ios::binary) << content;
}

TEST(DamagedCheckpoint, is_refused_when_a_file_is_missing) {
  expect_refused(Code::invalid_argument, {"state.safetensors", "No such file"},
                 [](const auto& folder) { std::filesystem::remove(folder / "state.safetensors"); });
  expect_refused(Code::invalid_argument, {"step-000000000001", "it has no manifest.json"},
                 [](const auto& folder) { std::filesystem::remove(folder / "manifest.json"); });
  expect_refused(Code::invalid_argument, {"step-000000000001", "No such file"},
                 [](const auto& folder) { std::filesystem::remove_all(folder); });
}

TEST(DamagedCheckpoint, is_refused_when_a_file_is_truncated) {
  for (const std::uintmax_t size : {std::uintmax_t{0}, std::uintmax_t{5}, std::uintmax_t{100}}) {
    expect_refused(Code::data_loss, {"state.safetensors", "truncated"},
                   [size](const auto& folder) { std::filesystem::resize_file(folder / "state.safetensors", size); });
    expect_refused(Code::data_loss, {"manifest.json"},
                   [size](const auto& folder) { std::filesystem::resize_file(folder / "manifest.json", size); });
  }
}

TEST(DamagedCheckpoint, is_refused_when_a_bit_is_flipped) {
  // i64 comes before f32
  expect_refused(Code::data_loss, {"state.safetensors", "\"w\"", "checksum"},
                 [](const auto& folder) { flip(folder / "state.safetensors", -1); });
  expect_refused(Code::data_loss, {"state.safetensors", "\"n\"", "checksum"},
                 [](const auto& folder) { flip(folder / "state.safetensors", -13); });
  expect_refused(Code::data_loss, {"state.safetensors", "header"},
                 [](const auto& folder) { flip(folder / "state.safetensors", 20); });
  expect_refused(Code::data_loss, {"state.safetensors", "header"},
                 [](const auto& folder) { flip(folder / "state.safetensors", 1); });
  expect_refused(Code::data_loss, {"manifest.json"}, [](const auto& folder) {
    const auto word = content_of(folder / "manifest.json").find("file_bytes");
    flip(folder / "manifest.json", static_cast<std::int64_t>(word) + 3);
  });
}

TEST(DamagedCheckpoint, is_refused_when_a_file_belongs_to_another_checkpoint) {
  expect_refused(Code::data_loss, {"state.safetensors"}, [](const auto& folder) {
    std::ofstream(folder / "state.safetensors") << "{\"some\": \"other file\"}";
  });
  expect_refused(Code::data_loss, {"manifest.json", "not a manifest"},
                 [](const auto& folder) { std::ofstream(folder / "manifest.json") << "{\"model\": 7}"; });
}

TEST(DamagedCheckpoint, is_refused_when_its_manifest_is_nested_deeply) {
  const std::string begin = R"({"checkpoint": {"format": "lockstep checkpoint", "x": )";
  const std::string lists(200'000, '[');
  const std::string ends(200'000, ']');
  expect_refused(Code::data_loss,
                 {"manifest.json: the file is not a manifest of a lockstep checkpoint, or it is damaged: ",
                  "more than 64 levels of nesting at byte " + std::to_string(begin.size() + 63)},
                 [&](const auto& folder) {
                   std::ofstream(folder / "manifest.json") << begin << lists << ends << R"(}, "crc32c": 1})";
                 });
  const TemporaryDirectory directory;
  const auto folder = directory.path() / "step-000000000001";
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "manifest.json") << begin << lists << ends << R"(}, "crc32c": 1})";
  std::ofstream(folder / "state.safetensors") << "";
  MirroredStrategy strategy = mirrored(1);
  Checkpoint checkpoint(strategy);
  checkpoint.track("v", strategy.variable<float>(1.0F));
  expect_error(Code::data_loss, {"manifest.json", "more than 64 levels of nesting"},
               [&] { checkpoint.restore_latest(directory.path()); });
}

TEST(DamagedCheckpoint, is_refused_with_the_place_in_its_manifest) {
  expect_refused(Code::data_loss, {"manifest.json", "invalid JSON at byte 3"},
                 [](const auto& folder) { std::ofstream(folder / "manifest.json") << "{ x"; });
  expect_refused(Code::data_loss, {"manifest.json", "the number 1e999 at byte 15 is out of range"},
                 [](const auto& folder) { std::ofstream(folder / "manifest.json") << R"({"checkpoint":1e999})"; });
}

TEST(ForeignCheckpoint, is_refused_when_names_shapes_or_types_differ) {
  const auto nothing = [](const auto&) {};
  expect_refused(Code::invalid_argument, {"state.safetensors", "\"more\"", "tracked"}, nothing,
                 [](Job& job, Strategy& strategy) { job.checkpoint.track("more", strategy.variable<float>(1.0F)); });
  expect_refused(Code::invalid_argument, {"\"stream\"", "generator"}, nothing,
                 [](Job& job, Strategy&) { job.checkpoint.track("stream", job.random); });
  const auto restored_into = [&](auto track, const std::vector<std::string>& parts) {
    expect_refused(Code::invalid_argument, parts, nothing, [&](Job& job, Strategy& strategy) {
      job.checkpoint = Checkpoint(strategy);
      track(job, strategy);
    });
  };
  restored_into([](Job& job, Strategy&) { job.checkpoint.track("w", job.w).track("random", job.random); },
                {"state.safetensors", "\"n\"", "no object is tracked", "RestoredNames::tracked"});
  restored_into([](Job& job, Strategy&) { job.checkpoint.track("w", job.w).track("n", job.n); },
                {"\"random\"", "no object is tracked"});
  restored_into(
      [](Job& job, Strategy& strategy) {
        job.checkpoint.track("random", job.random).track("n", job.n);
        job.checkpoint.track("w", strategy.variable<float>(std::vector<float>(4), {.name = "w"}));
      },
      {"\"w\"", "f32[3]", "f32[4]"});
  restored_into(
      [](Job& job, Strategy& strategy) {
        job.checkpoint.track("random", job.random).track("w", job.w);
        job.checkpoint.track("n", strategy.variable<std::int32_t>(1, {.name = "n"}));
      },
      {"\"n\"", "i64", "i32"});
}

TEST(ForeignCheckpoint, is_refused_when_a_generator_was_created_in_another_context) {
  expect_refused(
      Code::invalid_argument, {"\"random\"", "outside every scope", "in a scope"}, [](const auto&) {},
      [](Job& job, Strategy& strategy) {
        const Scope scope = strategy.scope();
        job.inside = Generator::from_seed(1);
        job.checkpoint = Checkpoint(strategy);
        job.checkpoint.track("w", job.w).track("n", job.n).track("random", *job.inside);
      });
}

TEST(DamagedCheckpoint, is_refused_by_all_when_one_rank_sees_another_file) {
  const TemporaryDirectory directory;
  on_workers({1, 1}, [&](Strategy& strategy) {
    Job job(strategy);
    const auto first = job.checkpoint.save(directory.path(), 1);
    const auto second = job.checkpoint.save(directory.path(), 2);
    job.change(5);
    expect_error(Code::mismatch, {"rank 0 reads " + first, "rank 1 reads " + second, "contents differ"},
                 [&] { job.checkpoint.restore(strategy.is_chief() ? first : second); });
    expect_error(Code::invalid_argument, {"no-such", "rank 1"}, [&] {
      job.checkpoint.restore(strategy.is_chief() ? first : (directory.path() / "no-such").string());
    });
    expect_error(Code::mismatch, {"rank 0 passes step 3, but rank 1 passes step 4", "same checkpoint"},
                 [&] { job.checkpoint.save(directory.path(), strategy.is_chief() ? 3 : 4); });
    expect_error(
        Code::mismatch, {"rank 0 passes directory \"" + directory.path().string() + "\"", "rank 1", "/b\""}, [&] {
          job.checkpoint.save(strategy.is_chief() ? directory.path().string() : (directory.path() / "b").string(), 3);
        });
    EXPECT_TRUE(job.is_untouched(5));
    EXPECT_EQ(job.checkpoint.restore_latest(directory.path()), 2) << "the job continues to work";
  });
}

TEST(Checkpoint, of_other_objects_on_another_rank_is_refused_before_it_is_written) {
  const TemporaryDirectory directory;
  on_workers({1, 1, 1}, [&](Strategy& strategy) {
    const bool is_last = strategy.communicator().rank() == 2;
    const auto a = strategy.variable<float>(std::vector<float>(3), {.name = "a"});
    const auto b = strategy.variable<double>(1.0, {.name = "b"});
    const auto save = [&](FunctionRef<void(Checkpoint&)> track) {
      Checkpoint checkpoint(strategy);
      track(checkpoint);
      checkpoint.save(directory.path(), 1);
    };
    expect_error(Code::mismatch,
                 {"object 1 (counted from 0) is \"v\" f64[] (synchronization on_write, aggregation none) on rank 0",
                  "\"w\" f64[] (synchronization on_write, aggregation none) on rank 2"},
                 [&] { save([&](Checkpoint& all) { all.track("a", a).track(is_last ? "w" : "v", b); }); });
    expect_error(Code::mismatch,
                 {"object 0 (counted from 0) is \"v\" f32[3]", "on rank 0, but \"v\" f64[]", "on rank 2"},
                 [&] { save([&](Checkpoint& all) { is_last ? all.track("v", b) : all.track("v", a); }); });
    expect_error(Code::mismatch,
                 {"object 1 (counted from 0) is missing on rank 0, but \"b\" f64[]", "on rank 2", "same order"}, [&] {
                   save([&](Checkpoint& all) {
                     all.track("a", a);
                     if (is_last) all.track("b", b);
                   });
                 });
    EXPECT_TRUE(Checkpoint::steps(directory.path()).empty());
    save([&](Checkpoint& all) { all.track("a", a).track("b", b); });
    EXPECT_EQ(Checkpoint::steps(directory.path()), std::vector<std::int64_t>{1});
  });
}

TEST(Save, that_fails_leaves_the_former_checkpoint) {
  const TemporaryDirectory directory;
  directory.write("a-file", "");
  for (const std::size_t parallel_bytes : {std::size_t{1}, std::size_t{1} << 30}) {
    on_workers({1, 1}, [&](Strategy& strategy) {
      const auto w = strategy.variable<float>(std::vector<float>(50'000, 1.0F), {.name = "w"});
      Checkpoint checkpoint(strategy, {.parallel_bytes = parallel_bytes});
      checkpoint.track("w", w);
      Communicator communicator = strategy.communicator();
      checkpoint.save(directory.path(), 1);
      expect_error(Code::invalid_argument, {"a-file", "Not a directory"},
                   [&] { checkpoint.save(directory.path() / "a-file", 2); });
      expect_error(Code::invalid_argument, {"-1", "at least 0"}, [&] { checkpoint.save(directory.path(), -1); });
      communicator.barrier();
      EXPECT_EQ(checkpoint.restore_latest(directory.path()), 1);
      EXPECT_EQ(files_in(directory.path()), (std::vector<std::string>{"a-file", "step-000000000001"}));
      communicator.barrier();
    });
  }
}

TEST(Save, without_space_fails_on_all_ranks_and_leaves_the_former_checkpoint) {
  const TemporaryDirectory directory;
  for (const std::size_t parallel_bytes : {std::size_t{1}, std::size_t{1} << 30}) {
    for (const bool in_background : {false, true}) {
      std::optional<SizeLimit> limit;  // applies to the process; the ranks are its threads
      on_workers({1, 1}, [&](Strategy& strategy) {
        const auto w = strategy.variable<float>(std::vector<float>(50'000, 1.0F), {.name = "w"});
        Checkpoint checkpoint(strategy, {.parallel_bytes = parallel_bytes});
        checkpoint.track("w", w);
        Communicator communicator = strategy.communicator();
        checkpoint.save(directory.path(), 1);
        if (strategy.is_chief()) limit.emplace(100'000);
        communicator.barrier();
        expect_error(Code::unavailable,
                     {"cannot write " + (directory.path() / "step-000000000002/state.safetensors").string() +
                      ": File too large"},
                     [&] {
                       if (!in_background) {
                         checkpoint.save(directory.path(), 2);
                       } else {
                         PendingSave pending = checkpoint.save_async(directory.path(), 2);
                         EXPECT_NO_THROW(communicator.barrier());
                         pending.wait();
                       }
                     });
        communicator.barrier();
        if (strategy.is_chief()) limit.reset();
        communicator.barrier();
        EXPECT_EQ(checkpoint.restore_latest(directory.path()), 1);
        EXPECT_EQ(files_in(directory.path()), std::vector<std::string>{"step-000000000001"});
        EXPECT_NO_THROW(checkpoint.save(directory.path(), 1)) << "the job continues to work";
      });
    }
  }
}

TEST(Save, without_permission_reports_it) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  const TemporaryDirectory directory;
  std::filesystem::create_directories(directory.path() / "locked");
  ::chmod((directory.path() / "locked").c_str(), 0500);
  MirroredStrategy strategy = mirrored(1);
  Checkpoint checkpoint(strategy);
  checkpoint.track("w", strategy.variable<float>(1.0F));
  expect_error(Code::failed_precondition, {"locked", "Permission denied"},
               [&] { checkpoint.save(directory.path() / "locked", 1); });
}

TEST(Track, refuses_invalid_names) {
  MirroredStrategy strategy = mirrored(1);
  const auto v = strategy.variable<float>(1.0F);
  Checkpoint checkpoint(strategy);
  checkpoint.track("v", v);
  for (const char* name : {"", "__metadata__", "x.replicas"})
    expect_error(Code::invalid_argument, {"not allowed", name}, [&] { checkpoint.track(name, v); });
  expect_error(Code::invalid_argument, {"\"v\"", "already"}, [&] { checkpoint.track("v", v); });
  for (const char* name : {"\xff", "\xc3", "a\xe2\x82", "\xc0\x80"})
    expect_error(Code::invalid_argument, {"UTF-8"}, [&] { checkpoint.track(name, v); });
  checkpoint.track("größe €", v);
  expect_error(Code::invalid_argument, {"keep_last", "-1"}, [&] { Checkpoint(strategy, {.keep_last = -1}); });
}

TEST(Checkpoint, is_for_cross_replica_context) {
  const TemporaryDirectory directory;
  MirroredStrategy strategy = mirrored(1);
  Checkpoint checkpoint(strategy);
  checkpoint.track("v", strategy.variable<float>(1.0F));
  expect_error(Code::failed_precondition, {"save", "replica context"},
               [&] { strategy.run([&] { checkpoint.save(directory.path(), 1); }); });
  const Scope scope = strategy.scope();
  EXPECT_NO_THROW(checkpoint.save(directory.path(), 1));
}

TEST(Checkpoint, refuses_on_read_variables_without_aggregation) {
  const TemporaryDirectory directory;
  on_workers({1, 1}, [&](Strategy& strategy) {
    Checkpoint checkpoint(strategy);
    checkpoint.track("v", strategy.sync_on_read_variable<float>(1.0F));
    expect_error(Code::invalid_argument, {"save", "\"v\"", "aggregation is none"},
                 [&] { checkpoint.save(directory.path(), 1); });
  });
}

}  // namespace
}  // namespace lockstep::test
