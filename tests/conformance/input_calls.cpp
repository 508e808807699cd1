// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Steps that distribute datasets.

#include "conformance/input_data.hpp"
#include "conformance/steps.hpp"
#include "support/temporary_directory.hpp"

#include <fstream>
#include <map>
#include <memory>

namespace lockstep::conformance {
namespace {

/// A dataset of the numbers in all files; each file has one number per line.
Dataset<Tensor> lines_of(const Json& files) {
  const auto folder = std::make_shared<test::TemporaryDirectory>();
  FileList names;
  for (const Json& numbers : files) {
    names.push_back(folder->path() / (std::to_string(names.size()) + ".txt"));
    std::ofstream file(names.back());
    for (const Json& number : numbers) file << number.get<std::int64_t>() << '\n';
  }
  return text_line_dataset(names).map([folder](const Tensor& line) {
    const auto bytes = line.elements<std::uint8_t>();
    return Tensor::scalar(std::int64_t{std::stoll(std::string(bytes.begin(), bytes.end()))});
  });
}

std::vector<std::int64_t> numbers_of(const Json& json) {
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < json["range"].get<std::int64_t>(); ++i) numbers.push_back(i);
  return numbers;
}

InputOptions options_of_step(const Json& step) {
  static const std::map<std::string, AutoShardPolicy> policies = {{"AUTO", AutoShardPolicy::automatic},
                                                                  {"FILE", AutoShardPolicy::file},
                                                                  {"DATA", AutoShardPolicy::data},
                                                                  {"FILE_OR_DATA", AutoShardPolicy::file_or_data},
                                                                  {"OFF", AutoShardPolicy::off}};
  static const std::map<std::string, SplitPolicy> splits = {{"FixedChunks", SplitPolicy::fixed_chunks},
                                                            {"CeilSlices", SplitPolicy::ceil_slices}};
  InputOptions options;
  if (step.contains("split")) options.split = splits.at(step["split"].get<std::string>());
  if (step.contains("shard")) options.auto_shard_policy = policies.at(step["shard"].get<std::string>());
  if (step.value("replication", "") == "PER_REPLICA")
    options.experimental_replication_mode = InputReplicationMode::per_replica;
  return options;
}

Json distribute(World& world, const Json& step) {
  const InputOptions options = options_of_step(step);
  const Json& dataset = step["dataset"];
  if (dataset.contains("arrays")) {
    const auto rows =
        Dataset<Named>::from_tensor_slices({tensor_of(dataset["arrays"]["a"]), tensor_of(dataset["arrays"]["b"])});
    return {{"steps", steps_of(world.strategy().experimental_distribute_dataset(batched(rows, dataset), options))}};
  }
  const auto distributed = world.strategy().experimental_distribute_dataset(dataset_of(dataset), options);
  if (!step.contains("passes")) return {{"steps", steps_of(distributed)}};
  Json passes = Json::array();
  for (int pass = 0; pass < step["passes"].get<int>(); ++pass) passes.push_back({{"steps", steps_of(distributed)}});
  return {{"passes", passes}};
}

/// The dataset that a step's function returns.
Dataset<Tensor> dataset_for(const Json& step, const InputContext& context) {
  const auto pipeline = static_cast<std::size_t>(context.input_pipeline_id());
  if (step.contains("datasets")) return dataset_of(step["datasets"].at(pipeline));
  const Json& json = step["dataset"];
  std::vector<std::int64_t> numbers = numbers_of(json);
  if (step.value("shard_by_pipeline", false)) {
    std::vector<std::int64_t> mine;
    const auto pipelines = static_cast<std::size_t>(context.num_input_pipelines());
    for (std::size_t i = pipeline; i < numbers.size(); i += pipelines) mine.push_back(numbers[i]);
    numbers = std::move(mine);
  }
  const auto rows = Dataset<Tensor>::from_tensor_slices(Tensor::from(numbers));
  if (!step.contains("global_batch")) return batched(rows, json);
  return rows.batch(context.get_per_replica_batch_size(step["global_batch"].get<std::int64_t>()));
}

Json distribute_from_function(World& world, const Json& step) {
  Json contexts = Json::array();
  const auto distributed = world.strategy().distribute_datasets_from_function(
      [&](const InputContext& context) {
        contexts.push_back({{"input_pipeline_id", context.input_pipeline_id()},
                            {"num_input_pipelines", context.num_input_pipelines()},
                            {"num_replicas_in_sync", context.num_replicas_in_sync()}});
        return dataset_for(step, context);
      },
      options_of_step(step));
  Json result = {{"steps", steps_of(distributed)}};
  if (step.value("contexts", false)) result["contexts"] = contexts;
  return result;
}

Json spec_of(const TensorSpec& spec) {
  Json shape = Json::array();
  for (const auto& extent : spec.shape) shape.push_back(extent ? Json(*extent) : Json());
  return {{"shape", shape}, {"dtype", std::string(to_string(spec.dtype))}};
}

Json element_spec(World& world, const Json& step) {
  const auto spec = world.strategy().experimental_distribute_dataset(dataset_of(step["dataset"])).element_spec();
  Json components = Json::array();
  for (int i = 0; i < spec.size(); ++i) components.push_back(spec_of(spec.component(i)));
  return {{"$replicas", components}, {"first", spec.first_replica()}};
}

}  // namespace

Dataset<Tensor> dataset_of(const Json& json) {
  if (json.contains("files")) return batched(lines_of(json["files"]), json);
  return batched(Dataset<Tensor>::range(json["range"].get<std::int64_t>()), json);
}

void add_input_calls(Calls& calls) {
  calls["distribute_dataset"] = distribute;
  calls["distribute_datasets_from_function"] = distribute_from_function;
  calls["element_spec"] = element_spec;
  calls["per_replica_batch_size"] = [](World& world, const Json& step) {
    const InputContext context(1, 0, world.strategy().num_replicas_in_sync());
    return result_of(context.get_per_replica_batch_size(step["global_batch"].get<std::int64_t>()));
  };
}

}  // namespace lockstep::conformance
