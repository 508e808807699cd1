// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The functions that run steps: one for each `call`, and one for each step that is a sentence.

#pragma once

#include "conformance/world.hpp"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace lockstep::conformance {

/// Runs a step that is an object. Its return value or exception is the result of the step.
using CallStep = std::function<Json(World&, const Json& step)>;
/// Functions by the name of the call.
using Calls = std::map<std::string, CallStep>;

/// Runs a step that is a sentence.
using SentenceStep = std::function<Json(World&)>;
/// The sentences of one case, in order.
using Script = std::vector<SentenceStep>;
/// Makers of scripts, by the id of the case: each run gets a new script, since its steps share state.
using Scripts = std::map<std::string, std::function<Script()>>;

void add_checkpoint_calls(Calls& calls);
void add_cluster_calls(Calls& calls);
void add_context_calls(Calls& calls);
void add_input_calls(Calls& calls);
void add_option_calls(Calls& calls);
void add_reduce_calls(Calls& calls);
void add_run_calls(Calls& calls);
void add_variable_calls(Calls& calls);

void add_cluster_scripts(Scripts& scripts);
void add_context_scripts(Scripts& scripts);
void add_input_scripts(Scripts& scripts);
void add_run_scripts(Scripts& scripts);
void add_reduce_scripts(Scripts& scripts);
void add_variable_scripts(Scripts& scripts);
void add_strategy_scripts(Scripts& scripts);
void add_training_scripts(Scripts& scripts);
void add_v1_scripts(Scripts& scripts);

const Calls& calls();
const Scripts& scripts();

}  // namespace lockstep::conformance
