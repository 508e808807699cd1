// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Files that lockstep writes, and the restoring of checkpoints. A file under its final name is complete.

#include <lockstep/lockstep.hpp>

#include "cluster/hash_log.hpp"
#include "cluster/metrics.hpp"
#include "cluster/reporter.hpp"
#include "cluster/settings.hpp"
#include "cluster/trace_writer.hpp"
#include "shortages/trial.hpp"
#include "support/temporary_directory.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::shortages {
namespace {

const CheckpointOptions sliced{.parallel_bytes = 1};  // all ranks write

struct Saved {
  Saved(Rank& rank, const CheckpointOptions& options)
      : strategy(rank.communicator()),
        variable(strategy.variable<float>(std::vector<float>(40, 1.0F), {.name = "v"})),
        checkpoint(strategy, options),
        folder((rank.directory() / "checkpoints").string()) {
    checkpoint.track("v", variable);
  }

  MultiWorkerMirroredStrategy strategy;
  MirroredVariable<float> variable;
  Checkpoint checkpoint;
  std::string folder;
};

/// All that the folder has under a final name can be restored, and nothing unfinished is left after the last save.
void check_folder(Rank& rank, Saved& saved) {
  const Communicator& comm = saved.strategy.communicator();
  if (!saved.checkpoint.restore_latest(saved.folder)) rank.complain("no checkpoint after the second save");
  comm.barrier();
  if (rank.number() != 0) return;
  for (const std::string& name : test::files_in(saved.folder)) {
    if (!name.starts_with("step-")) rank.complain("left behind: " + name);
  }
}

void save_with(Rank& rank, const CheckpointOptions& options) {
  Saved saved(rank, options);
  rank.tries([&] { saved.checkpoint.save(saved.folder, 1); }, saved.strategy.communicator());
  check_folder(rank, saved);
}
void save(Rank& rank) { save_with(rank, {}); }
void save_sliced(Rank& rank) { save_with(rank, sliced); }

/// A save over checkpoints of earlier steps, of which it removes one.
void save_again(Rank& rank) {
  Saved saved(rank, {.keep_last = 2});
  saved.checkpoint.save(saved.folder, 1);
  saved.checkpoint.save(saved.folder, 2);
  rank.tries([&] { saved.checkpoint.save(saved.folder, 3); }, saved.strategy.communicator());
  check_folder(rank, saved);
}

void save_async_with(Rank& rank, const CheckpointOptions& options) {
  Saved saved(rank, options);
  rank.tries([&] { saved.checkpoint.save_async(saved.folder, 1).wait(); }, saved.strategy.communicator());
  check_folder(rank, saved);
}
void save_async(Rank& rank) { save_async_with(rank, {}); }
void save_async_sliced(Rank& rank) { save_async_with(rank, sliced); }

void restore_with(Rank& rank, const CheckpointOptions& options) {
  Saved saved(rank, options);
  saved.checkpoint.save(saved.folder, 1);
  rank.tries([&] { saved.checkpoint.restore(saved.folder, 1); }, saved.strategy.communicator());
}
void restore(Rank& rank) { restore_with(rank, {}); }

void restore_latest(Rank& rank) {
  Saved saved(rank, sliced);
  saved.checkpoint.save(saved.folder, 1);
  saved.checkpoint.save(saved.folder, 2);
  rank.tries(
      [&] {
        if (saved.checkpoint.restore_latest(saved.folder) != 2) throw std::runtime_error("another step was restored");
      },
      saved.strategy.communicator());
}

SafetensorsFile content(float value) { return {{{"x", Tensor::from(std::vector<float>(30, value))}}, {{"a", "b"}}}; }

void write_safetensors(Rank& rank) {
  const std::string path = (rank.directory() / "x.safetensors").string();
  const SafetensorsFile before = content(1.0F);
  const SafetensorsFile after = content(2.0F);
  save_safetensors(path, before);
  rank.tries_once([&] { save_safetensors(path, after); });
  const float expected = rank.outcome().kind == "passed" ? 2.0F : 1.0F;
  const float found = load_safetensors(path).tensors.at("x").elements<float>()[29];
  // the flush of the folder comes after the replacement
  const bool may_be_new = rank.outcome().text.find("flush to disk") != std::string::npos;
  if (found != expected && !(may_be_new && found == 2.0F)) rank.complain("the file does not have the expected content");
  save_safetensors(path, after);
  if (test::files_in(rank.directory()).size() != 1) rank.complain("a file is left behind");
}

void read_safetensors(Rank& rank) {
  const std::string path = (rank.directory() / "x.safetensors").string();
  save_safetensors(path, content(1.0F));
  rank.tries_alone([&] { static_cast<void>(load_safetensors(path)); });
}

/// The file does not exist, or ends as a whole record does.
void flight_record(Rank& rank) {
  const std::string path = (rank.directory() / "record.json").string();
  const Communicator& comm = rank.communicator();
  comm.barrier();
  rank.tries_once([&] { static_cast<void>(write_flight_record(path)); });
  const std::string text = test::TemporaryDirectory().read(path);
  if (std::filesystem::exists(path) && !text.ends_with("}\n") && !text.ends_with("}"))
    rank.complain("an incomplete record of " + std::to_string(text.size()) + " bytes");
  static_cast<void>(write_flight_record(path));
}

void hash_log(Rank& rank) {
  const std::string folder = rank.directory().string();
  rank.tries_alone([&] {
    detail::HashLog log(folder, 0, 1);
    log.add(log.number_of(detail::HashedGroup{"world", 1, {0}, 0, {1}}),
            {.call = log.number_of(detail::HashedCall{.kind = "all_reduce", .text = "all_reduce"}), .inputs = {7}});
  });
}

template <const char* extension>
void metrics(Rank& rank) {
  const std::string path = (rank.directory() / "metrics").string() + extension;
  rank.tries_alone([&] { detail::MetricsFile(path, 0, 1).write(); });
  for (const std::string& name : test::files_in(rank.directory())) {
    if (!name.ends_with(extension)) rank.complain("left behind: " + name);
  }
}
constexpr char jsonl[] = ".jsonl";
constexpr char prometheus[] = ".prom";

void trace(Rank& rank) {
  const std::string folder = rank.directory().string();
  rank.tries_alone([&] {
    detail::TraceWriter writer(folder, 0, 1);
    writer.write();
    writer.end();
  });
}

void reporter(Rank& rank) {
  detail::Settings settings;
  settings.metrics_file = (rank.directory() / "metrics.jsonl").string();
  settings.trace_directory = rank.directory().string();
  rank.tries_alone([&] { detail::Reporter(settings, 0, 1).start(); });
}

}  // namespace

std::vector<Row> checkpoint_rows() {
  const std::vector<int> ranks{0, 0};
  return {{"save", ranks, save},
          {"save/all_ranks_write", ranks, save_sliced},
          {"save/again", ranks, save_again},
          {"save_async", ranks, save_async},
          {"save_async/all_ranks_write", ranks, save_async_sliced},
          {"restore", ranks, restore},
          {"restore_latest", ranks, restore_latest},
          {"save_safetensors", {0}, write_safetensors},
          {"load_safetensors", {0}, read_safetensors},
          {"write_flight_record", {0}, flight_record},
          {"hash_log", {0}, hash_log},
          {"metrics", {0}, metrics<jsonl>},
          {"metrics/prometheus", {0}, metrics<prometheus>},
          {"trace", {0}, trace},
          {"reporter", {0}, reporter}};
}

}  // namespace lockstep::shortages
