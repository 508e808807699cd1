// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "conformance/steps.hpp"

namespace lockstep::conformance {

const Calls& calls() {
  static const Calls all = [] {
    Calls calls;
    add_checkpoint_calls(calls);
    add_cluster_calls(calls);
    add_context_calls(calls);
    add_input_calls(calls);
    add_option_calls(calls);
    add_reduce_calls(calls);
    add_run_calls(calls);
    add_variable_calls(calls);
    return calls;
  }();
  return all;
}

const Scripts& scripts() {
  static const Scripts all = [] {
    Scripts scripts;
    add_cluster_scripts(scripts);
    add_context_scripts(scripts);
    add_input_scripts(scripts);
    add_reduce_scripts(scripts);
    add_run_scripts(scripts);
    add_strategy_scripts(scripts);
    add_training_scripts(scripts);
    add_v1_scripts(scripts);
    add_variable_scripts(scripts);
    return scripts;
  }();
  return all;
}

}  // namespace lockstep::conformance
