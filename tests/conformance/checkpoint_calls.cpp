// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Steps that save and restore checkpoints. A save returns the content of the file; the file for a restore is written
// without a strategy.

#include "conformance/steps.hpp"

#include <lockstep/checkpoint/checkpoint.hpp>
#include <lockstep/checkpoint/safetensors.hpp>

#include <cstdint>
#include <filesystem>
#include <random>
#include <span>

namespace lockstep::conformance {
namespace {

/// A directory with a name that all ranks know; removed in the destructor.
class SharedDirectory {
 public:
  explicit SharedDirectory(Communicator communicator) : communicator_(std::move(communicator)) {
    std::uint64_t number = std::random_device()();
    if (communicator_.size() > 1) {
      const TensorView view = view_of(std::span(&number, 1));
      const ConstTensorView input(view);
      const bool is_root = communicator_.rank() == 0;
      const Item item{is_root ? std::span(&input, 1) : std::span<const ConstTensorView>(),
                      is_root ? std::span<const TensorView>() : std::span(&view, 1)};
      communicator_.broadcast(std::span(&item, 1), 0);
    }
    path_ = std::filesystem::temp_directory_path() / ("lockstep-conformance-" + std::to_string(number));
  }
  SharedDirectory(const SharedDirectory&) = delete;
  SharedDirectory& operator=(const SharedDirectory&) = delete;
  ~SharedDirectory() {
    std::error_code ignored;
    if (communicator_.rank() == 0) std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  Communicator communicator_;
  std::filesystem::path path_;
};

Checkpoint checkpoint_of(World& world) {
  Checkpoint checkpoint(world.strategy());
  for (const auto& [name, json] : world.given()["variables"].items()) checkpoint.track(name, world.variable(name));
  return checkpoint;
}

Json save_call(World& world, const Json&) {
  const SharedDirectory directory(world.strategy().communicator());
  const std::filesystem::path folder = checkpoint_of(world).save(directory.path(), 1);
  const SafetensorsFile file = load_safetensors(folder / "state.safetensors");
  std::map<std::string, Tensor> saved;
  for (const auto& [name, json] : world.given()["variables"].items()) saved[name] = file.tensors.at(name);
  Communicator communicator = world.strategy().communicator();
  communicator.barrier();  // all ranks have read
  return result_of(saved);
}

Json restore_call(World& world, const Json& step) {
  const SharedDirectory directory(world.strategy().communicator());
  const auto file = directory.path() / "model.safetensors";
  if (world.rank() == 0) {
    SafetensorsFile content;
    for (const auto& [name, value] : step["file"].items())
      content.tensors[name] = tensor_of(value, world.variable(name).dtype());
    std::filesystem::create_directories(directory.path());
    save_safetensors(file, content);
  }
  Communicator communicator = world.strategy().communicator();
  communicator.barrier();
  checkpoint_of(world).restore(file, {.names = RestoredNames::tracked});
  return "ok";
}

/// Sets each replica's copy to the given value, independent of the variable's aggregation.
Json set_components_call(World& world, const Json& step) {
  const Variable& variable = world.variable(step["variable"].get<std::string>());
  const PerReplica<Tensor> values = world.per_replica(step["value"], variable.dtype());
  for (int i = 0; i < values.size(); ++i) variable.component(i).copy_from(values.component(i).view());
  return "ok";
}

}  // namespace

void add_checkpoint_calls(Calls& calls) {
  calls["save"] = save_call;
  calls["restore"] = restore_call;
  calls["set_components"] = set_components_call;
}

}  // namespace lockstep::conformance
