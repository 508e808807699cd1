#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Maps each class, constructor, attribute and method of the strategy pages to its declaration and to a test that uses it.

  methods.py [ROOT]           checks every row of PAGES: TAP
  methods.py --table [ROOT]   prints the rows as Markdown, with the line of each declaration

A row is (name on the page, declaration, test[, word]). The test must contain the word; by default the last word of the
declaration. A declaration is `header Class`, `header Class::member` (a constructor is `Class::Class`) or
`header function()`, with the header's path in include/lockstep/. It stands for the first overload, or, as
`Class::member(TEXT`, for the one whose parameters begin with TEXT. A test is `Suite.name`; that of a conformance case is
`conformance_AREA.ID`.
"""

import json
import os
import re
import sys

MIRRORED = 'strategy/mirrored_strategy.hpp MirroredStrategy'
ONE_DEVICE = 'strategy/one_device_strategy.hpp OneDeviceStrategy'
STRATEGY = 'strategy/strategy.hpp Strategy'
EXTENDED = 'strategy/strategy_extended.hpp StrategyExtended'
V1 = 'strategy/v1.hpp '
REPLICA = 'context/replica_context.hpp ReplicaContext'
CONTEXT = 'context/context.hpp '
SCOPE = 'strategy/scope.hpp '
PER_REPLICA = 'values/per_replica.hpp '
INPUT_CONTEXT = 'input/input_context.hpp InputContext'
OPTIONS = 'collectives/communication_options.hpp CommunicationOptions'
RUN_OPTIONS = 'context/run_options.hpp RunOptions'
VALUE_CONTEXT = 'strategy/strategy.hpp ValueContext'
INPUT_OPTIONS = 'input/input_options.hpp InputOptions'
POLICY = 'input/input_options.hpp AutoShardPolicy'
RESOLVER = 'cluster/cluster_resolver.hpp ClusterResolver'

PAGES = [
    ('tf.distribute.MirroredStrategy, TensorFlow 2.0', [
        ('MirroredStrategy', MIRRORED, 'Mirrored_.has_a_replica_on_each_device'),
        ('MirroredStrategy()', MIRRORED + '::MirroredStrategy', 'StrategyPage.cluster_resolver'),
        ('MirroredStrategy(devices)', MIRRORED + '::MirroredStrategy(std::initializer_list', 'Mirrored_.takes_names_in_braces'),
        ('MirroredStrategy(devices, cross_device_ops)', MIRRORED + '::MirroredStrategy(const std::vector<std::string>& devices',
         'CrossDeviceOps_.of_the_user_reduce_all_values_of_the_strategy'),
        ('extended', STRATEGY + '::extended', 'ReduceTo.puts_a_copy_on_each_device_of_the_destination'),
        ('num_replicas_in_sync', STRATEGY + '::num_replicas_in_sync', 'Mirrored_.has_a_replica_on_each_device'),
        ('experimental_distribute_dataset', STRATEGY + '::experimental_distribute_dataset',
         'MirroredStrategyPage.experimental_distribute_dataset'),
        ('experimental_distribute_datasets_from_function', STRATEGY + '::experimental_distribute_datasets_from_function',
         'MirroredStrategyPage.experimental_distribute_datasets_from_function'),
        ('experimental_local_results', STRATEGY + '::experimental_local_results',
         'LocalResults.are_the_components_in_replica_order'),
        ('experimental_make_numpy_dataset', STRATEGY + '::experimental_make_numpy_dataset',
         'MirroredStrategyPage.experimental_make_numpy_dataset'),
        ('experimental_run_v2', STRATEGY + '::experimental_run_v2', 'MirroredStrategyPage.experimental_distribute_dataset'),
        ('reduce', STRATEGY + '::reduce', 'MirroredStrategyPage.reduce_over_replicas_and_along_the_batch'),
        ('scope', STRATEGY + '::scope', 'Context.inside_a_scope_is_cross_replica'),
    ]),
    ('tf.distribute.OneDeviceStrategy, TensorFlow 2.3', [
        ('OneDeviceStrategy', ONE_DEVICE, 'OneDevice.has_one_replica_on_its_device'),
        ('OneDeviceStrategy(device)', ONE_DEVICE + '::OneDeviceStrategy',
         'OneDevice.refuses_invalid_device_names_and_missing_devices'),
        ('cluster_resolver', STRATEGY + '::cluster_resolver', 'OneDeviceStrategyPage.cluster_resolver'),
        ('extended', STRATEGY + '::extended', 'OneDevice.has_one_replica_on_its_device'),
        ('num_replicas_in_sync', STRATEGY + '::num_replicas_in_sync', 'OneDevice.has_one_replica_on_its_device'),
        ('experimental_assign_to_logical_device', STRATEGY + '::experimental_assign_to_logical_device',
         'OneDeviceStrategyPage.experimental_assign_to_logical_device'),
        ('experimental_distribute_dataset', STRATEGY + '::experimental_distribute_dataset',
         'OneDeviceStrategyPage.experimental_distribute_dataset'),
        ('experimental_distribute_datasets_from_function', STRATEGY + '::experimental_distribute_datasets_from_function',
         'OneDeviceStrategyPage.experimental_distribute_datasets_from_function'),
        ('experimental_distribute_values_from_function', STRATEGY + '::experimental_distribute_values_from_function',
         'OneDeviceStrategyPage.experimental_distribute_values_from_function_of_a_constant'),
        ('experimental_local_results', STRATEGY + '::experimental_local_results',
         'OneDeviceStrategyPage.experimental_distribute_values_from_function_of_a_constant'),
        ('experimental_make_numpy_dataset', STRATEGY + '::experimental_make_numpy_dataset',
         'OneDeviceStrategyPage.experimental_make_numpy_dataset'),
        ('experimental_replicate_to_logical_devices', STRATEGY + '::experimental_replicate_to_logical_devices',
         'OneDeviceStrategyPage.experimental_replicate_to_logical_devices'),
        ('experimental_split_to_logical_devices', STRATEGY + '::experimental_split_to_logical_devices',
         'OneDeviceStrategyPage.experimental_split_to_logical_devices'),
        ('reduce', STRATEGY + '::reduce', 'OneDeviceStrategyPage.reduce'),
        ('run', STRATEGY + '::run', 'OneDeviceStrategyPage.class_description'),
        ('scope', STRATEGY + '::scope', 'OneDeviceStrategyPage.class_description'),
    ]),
    ('tf.distribute.Strategy', [
        ('Strategy', STRATEGY, 'StrategyPage.distribute_datasets_from_function'),
        ('the default strategy', SCOPE + 'get_strategy()', 'Default.has_one_replica_and_no_devices_of_its_own'),
        ('cluster_resolver', STRATEGY + '::cluster_resolver', 'StrategyPage.cluster_resolver'),
        ('extended', STRATEGY + '::extended', 'StrategyExtendedPage.locality'),
        ('num_replicas_in_sync', STRATEGY + '::num_replicas_in_sync',
         'MultiWorker.numbers_replicas_by_rank_then_device'),
        ('distribute_datasets_from_function', STRATEGY + '::distribute_datasets_from_function',
         'StrategyPage.distribute_datasets_from_function'),
        ('experimental_distribute_dataset', STRATEGY + '::experimental_distribute_dataset',
         'StrategyPage.a_custom_training_loop'),
        ('reduce', STRATEGY + '::reduce', 'StrategyPage.a_custom_training_loop'),
        ('run', STRATEGY + '::run', 'StrategyPage.a_custom_training_loop'),
        ('scope', STRATEGY + '::scope', 'StrategyPage.a_custom_training_loop'),
    ]),
    ('tf.compat.v1.distribute.MirroredStrategy, TensorFlow 2.4', [
        ('MirroredStrategy', V1 + 'MirroredStrategy', 'V1MirroredStrategyPage.a_variable_made_in_scope'),
        ('MirroredStrategy(devices, cross_device_ops)', MIRRORED + '::MirroredStrategy(const std::vector<std::string>& devices',
         'V1MirroredStrategyPage.a_variable_made_in_scope'),
        ('cluster_resolver', STRATEGY + '::cluster_resolver', 'V1MirroredStrategyPage.cluster_resolver'),
        ('extended', STRATEGY + '::extended', 'StrategyExtendedPage.update'),
        ('num_replicas_in_sync', STRATEGY + '::num_replicas_in_sync', 'V1.strategies_can_be_used_as_strategies'),
        ('distribute_datasets_from_function', STRATEGY + '::distribute_datasets_from_function',
         'StrategyPage.distribute_datasets_from_function'),
        ('experimental_distribute_dataset', STRATEGY + '::experimental_distribute_dataset',
         'V1MirroredStrategyPage.experimental_distribute_dataset'),
        ('experimental_local_results', STRATEGY + '::experimental_local_results',
         'V1MirroredStrategyPage.reduce_and_the_devices_of_its_values'),
        ('experimental_make_numpy_dataset(numpy_input, session)',
         V1 + 'StrategyMethods::experimental_make_numpy_dataset',
         'V1MirroredStrategyPage.experimental_make_numpy_dataset'),
        ('experimental_run', V1 + 'StrategyMethods::experimental_run', 'V1MirroredStrategyPage.make_input_fn_iterator'),
        ('make_dataset_iterator', V1 + 'StrategyMethods::make_dataset_iterator',
         'V1.dataset_iterators_divide_batches_and_start_over_when_initialized_again'),
        ('make_input_fn_iterator', V1 + 'StrategyMethods::make_input_fn_iterator',
         'V1MirroredStrategyPage.make_input_fn_iterator'),
        ('reduce', STRATEGY + '::reduce', 'V1MirroredStrategyPage.reduce'),
        ('run', STRATEGY + '::run', 'V1MirroredStrategyPage.run_with_a_constant'),
        ('scope', STRATEGY + '::scope', 'V1MirroredStrategyPage.scope'),
        ('update_config_proto', V1 + 'MirroredStrategy::update_config_proto',
         'V1MirroredStrategyPage.update_config_proto'),
        ('InputIterator', V1 + 'InputIterator', 'V1.iterators_must_be_initialized', 'iterator'),
        ('InputIterator.initialize', V1 + 'InputIterator::initialize', 'V1.iterators_must_be_initialized'),
        ('InputIterator.get_next', V1 + 'InputIterator::get_next',
         'V1.dataset_iterators_divide_batches_and_start_over_when_initialized_again'),
        ('InputReplicationMode', 'input/input_options.hpp InputReplicationMode',
         'V1.input_fn_iterators_can_only_be_made_per_worker'),
        ('experimental_distribute_values_from_function', STRATEGY + '::experimental_distribute_values_from_function',
         'V1MirroredStrategyPage.run_with_distributed_values'),
        ('MirroredVariable', 'variables/typed_variable.hpp MirroredVariable',
         'V1MirroredStrategyPage.a_variable_made_by_a_function'),
    ]),
    ('tf.distribute.StrategyExtended, TensorFlow 2.0', [
        ('StrategyExtended', EXTENDED, 'StrategyExtendedPage.update', 'extended'),
        ('experimental_require_static_shapes', EXTENDED + '::experimental_require_static_shapes',
         'Names.of_older_versions_are_equivalent'),
        ('parameter_devices', EXTENDED + '::parameter_devices', 'OneDevice.has_one_replica_on_its_device'),
        ('worker_devices', EXTENDED + '::worker_devices', 'Mirrored_.has_a_replica_on_each_device'),
        ('batch_reduce_to', EXTENDED + '::batch_reduce_to', 'BatchReduceTo.keeps_the_order_in_one_collective'),
        ('colocate_vars_with', EXTENDED + '::colocate_vars_with', 'StrategyExtendedPage.colocate_vars_with'),
        ('non_slot_devices', EXTENDED + '::non_slot_devices', 'UpdateNonSlot.increments_a_counter_on_every_device'),
        ('reduce_to', EXTENDED + '::reduce_to', 'ReduceTo.puts_a_copy_on_each_device_of_the_destination'),
        ('update', EXTENDED + '::update', 'StrategyExtendedPage.update'),
        ('update(group=False)', EXTENDED + '::update(Ungrouped', 'StrategyExtendedPage.update', 'ungrouped'),
        ('update_non_slot', EXTENDED + '::update_non_slot', 'UpdateNonSlot.increments_a_counter_on_every_device'),
        ('value_container', EXTENDED + '::value_container', 'StrategyExtendedPage.value_container'),
        ('variable_created_in_scope', EXTENDED + '::variable_created_in_scope',
         'StrategyExtendedPage.variable_created_in_scope'),
        ('call_for_each_replica', EXTENDED + '::call_for_each_replica', 'Names.of_older_versions_are_equivalent'),
        ('broadcast_to', EXTENDED + '::broadcast_to', 'BroadcastTo.puts_the_first_ranks_value_on_each_device'),
    ]),
    ('what the pages name besides', [
        ('get_strategy', SCOPE + 'get_strategy()', 'Context.inside_a_scope_is_cross_replica'),
        ('has_strategy', CONTEXT + 'has_strategy()', 'conformance_context.P36'),
        ('experimental_set_strategy', SCOPE + 'experimental_set_strategy()',
         'SetStrategy.makes_a_strategy_current_until_the_next_call'),
        ('get_replica_context', SCOPE + 'get_replica_context()', 'V1MirroredStrategyPage.reduce'),
        ('in_cross_replica_context', CONTEXT + 'in_cross_replica_context()',
         'StrategyExtendedPage.replica_context_and_cross_replica_context'),
        ('ReplicaContext', REPLICA, 'Run.calls_the_function_once_per_replica_with_its_id'),
        ('ReplicaContext.replica_id_in_sync_group', REPLICA + '::replica_id_in_sync_group',
         'V1MirroredStrategyPage.reduce'),
        ('ReplicaContext.num_replicas_in_sync', REPLICA + '::num_replicas_in_sync',
         'MultiWorker.numbers_replicas_by_rank_then_device'),
        ('ReplicaContext.strategy', REPLICA + '::strategy', 'Context.inside_run_is_the_context_of_that_replica'),
        ('ReplicaContext.devices', REPLICA + '::devices', 'V1MirroredStrategyPage.reduce_and_the_devices_of_its_values'),
        ('ReplicaContext.merge_call', REPLICA + '::merge_call',
         'MergeCall.calls_the_function_once_with_the_merged_arguments'),
        ('ReplicaContext.all_reduce', REPLICA + '::all_reduce', 'V1MirroredStrategyPage.run_with_all_reduce'),
        ('ReplicaContext.all_gather', REPLICA + '::all_gather', 'AllGather.gives_every_replica_the_parts_of_all'),
        ('Strategy.gather', STRATEGY + '::gather', 'Gather.concatenates_uneven_parts'),
        ('DistributedValues: PerReplica', PER_REPLICA + 'PerReplica', 'PerReplica.prints_ids_and_components'),
        ('DistributedValues: Mirrored', PER_REPLICA + 'Mirrored', 'Mirrored.converts_to_its_value'),
        ('DistributedDataset', 'input/distributed_dataset.hpp DistributedDataset',
         'StrategyPage.a_custom_training_loop'),
        ('DistributedIterator', 'input/distributed_dataset.hpp DistributedIterator',
         'DistributedDataset.has_independent_iterators_and_an_end', 'iterate'),
        ('InputContext', INPUT_CONTEXT, 'StrategyPage.distribute_datasets_from_function'),
        ('InputContext.num_input_pipelines', INPUT_CONTEXT + '::num_input_pipelines',
         'StrategyPage.distribute_datasets_from_function'),
        ('InputContext.input_pipeline_id', INPUT_CONTEXT + '::input_pipeline_id',
         'StrategyPage.distribute_datasets_from_function'),
        ('InputContext.num_replicas_in_sync', INPUT_CONTEXT + '::num_replicas_in_sync',
         'V1.input_fn_iterators_give_each_replica_the_next_element'),
        ('InputContext.get_per_replica_batch_size', INPUT_CONTEXT + '::get_per_replica_batch_size',
         'InputContext.divides_a_global_batch_evenly_or_not_at_all'),
        ('InputOptions', 'input/input_options.hpp InputOptions',
         'DistributedDataset.is_the_same_on_every_layout'),
        ('InputOptions.experimental_fetch_to_device', INPUT_OPTIONS + '::experimental_fetch_to_device',
         'InputOptions_.are_checked_with_the_rules_of_tf_distribute'),
        ('InputOptions.experimental_replication_mode', INPUT_OPTIONS + '::experimental_replication_mode',
         'PerReplicaDatasets.are_for_mirrored_strategies_only'),
        ('InputOptions.experimental_place_dataset_on_device', INPUT_OPTIONS + '::experimental_place_dataset_on_device',
         'InputOptions_.are_checked_with_the_rules_of_tf_distribute'),
        ('InputOptions.experimental_per_replica_buffer_size', INPUT_OPTIONS + '::experimental_per_replica_buffer_size',
         'InputOptions_.are_checked_with_the_rules_of_tf_distribute'),
        ('AutoShardPolicy', POLICY, 'Sharding.by_rank_requires_the_same_number_of_replicas_on_every_rank'),
        ('AutoShardPolicy.AUTO', POLICY + '::automatic', 'Describe.lists_the_data_of_each_rank_without_reading_any'),
        ('AutoShardPolicy.FILE', POLICY + '::file', 'FileSharding.gives_rank_i_files_i_and_so_on'),
        ('AutoShardPolicy.DATA', POLICY + '::data',
         'Sharding.by_data_gives_rank_i_slices_i_and_so_on_of_each_batch'),
        ('AutoShardPolicy.OFF', POLICY + '::off',
         'Sharding.off_gives_every_rank_all_elements_in_cyclic_chunks'),
        ('AutoShardPolicy.HINT', POLICY + '::hint',
         'HintSharding.replaces_the_hint_in_the_dataset_by_each_ranks_shard'),
        ('DistributedDataset.element_spec', 'input/distributed_dataset.hpp DistributedDataset::element_spec',
         'ElementSpec.has_the_known_number_of_rows_and_the_spec_of_the_first_element'),
        ('ValueContext', VALUE_CONTEXT, 'V1MirroredStrategyPage.run_with_distributed_values'),
        ('ValueContext.replica_id_in_sync_group', VALUE_CONTEXT + '::replica_id_in_sync_group',
         'V1MirroredStrategyPage.run_with_all_reduce'),
        ('ValueContext.num_replicas_in_sync', VALUE_CONTEXT + '::num_replicas_in_sync',
         'V1MirroredStrategyPage.run_with_distributed_values'),
        ('RunOptions', RUN_OPTIONS, 'RunOptions_.for_tpus_are_ignored_with_one_warning'),
        ('RunOptions.experimental_enable_dynamic_batch_size',
         RUN_OPTIONS + '::experimental_enable_dynamic_batch_size',
         'RunOptions_.for_tpus_are_ignored_with_one_warning'),
        ('RunOptions.experimental_bucketizing_dynamic_shape',
         RUN_OPTIONS + '::experimental_bucketizing_dynamic_shape',
         'RunOptions_.for_tpus_are_ignored_with_one_warning'),
        ('RunOptions.experimental_xla_options', RUN_OPTIONS + '::experimental_xla_options',
         'RunOptions_.for_tpus_are_ignored_with_one_warning'),
        ('ReduceOp', 'core/reduce_op.hpp ReduceOp', 'Reduce.gives_the_mean_of_integers_in_f64'),
        ('ReduceOp.SUM', 'core/reduce_op.hpp ReduceOp::sum', 'StrategyPage.a_custom_training_loop'),
        ('ReduceOp.MEAN', 'core/reduce_op.hpp ReduceOp::mean', 'MirroredStrategyPage.reduce_of_a_last_partial_batch'),
        ('"SUM", "MEAN"', 'core/reduce_op_argument.hpp ReduceOpArgument',
         'ReduceByName.takes_sum_and_mean_in_any_case_of_letters', '"MEAN"'),
        ('VariableSynchronization', 'variables/variable_options.hpp VariableSynchronization',
         'Variable.refuses_synchronizations_that_strategies_do_not_support'),
        ('VariableSynchronization.ON_READ', 'variables/typed_variable.hpp SyncOnReadVariable',
         'StrategyExtendedPage.sync_on_read_variables', 'sync_on_read_variable'),
        ('VariableAggregation', 'variables/variable_options.hpp VariableAggregation',
         'StrategyExtendedPage.assign_does_the_same_with_an_aggregation'),
        ('ClusterResolver', RESOLVER, 'StrategyPage.cluster_resolver'),
        ('ClusterResolver.task_type', RESOLVER + '::task_type', 'StrategyPage.cluster_resolver'),
        ('ClusterResolver.task_id', RESOLVER + '::task_id', 'StrategyPage.cluster_resolver'),
        ('ClusterResolver.cluster_spec', RESOLVER + '::cluster_spec', 'StrategyPage.cluster_resolver'),
        ('MultiWorkerMirroredStrategy', 'strategy/multi_worker_mirrored_strategy.hpp MultiWorkerMirroredStrategy',
         'MultiWorker.takes_a_list_of_devices_per_rank'),
        ('CrossDeviceOps', 'cross_device/cross_device_ops.hpp CrossDeviceOps',
         'CrossDeviceContract.gives_every_output_the_sum_of_all_replicas', 'reduce'),
        ('AllReduceCrossDeviceOps', 'cross_device/all_reduce_cross_device_ops.hpp AllReduceCrossDeviceOps',
         'Describe.names_layout_devices_reducer_and_the_reason'),
        ('NcclAllReduce', 'cross_device/nccl_all_reduce.hpp NcclAllReduce',
         'OnGpus.nccl_reduces_values_on_gpus_if_required_and_the_host_reduces_its_own'),
        ('ReductionToOneDevice', 'cross_device/reduction_to_one_device.hpp ReductionToOneDevice',
         'CrossDeviceOps_.return_the_results_of_a_user_function_or_canonical_sums_without_one'),
        ('CommunicationOptions', OPTIONS, 'CommunicationOptions_.merge_so_that_values_other_than_the_default_win'),
        ('CommunicationOptions.bytes_per_pack', OPTIONS + '::bytes_per_pack',
         'CommunicationOptions_.refuse_invalid_values'),
        ('CommunicationOptions.timeout_seconds', OPTIONS + '::timeout_seconds',
         'CommunicationOptions_.of_a_strategy_set_its_deadline'),
        ('CommunicationOptions.implementation', OPTIONS + '::implementation',
         'CommunicationOptions_.that_require_an_unavailable_implementation_are_refused'),
    ]),
]

# Names of the pages that no header declares yet. A declared name moves to the table above.
LATER = []

TEST = re.compile(r'^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)', re.MULTILINE)
CLASS = r'^(?:class|struct|enum class) (?:LOCKSTEP_API )?{}\b[^;]*$'


def tests_of(root):
    """The text of each test, by its name."""
    with open(os.path.join(root, 'tests/conformance/cases.json'), encoding='utf-8') as file:
        tests = {f'conformance_{case["area"]}.{case["id"]}': json.dumps(case) for case in json.load(file)}
    for folder, _, names in os.walk(os.path.join(root, 'tests')):
        for name in names:
            if name.endswith(('.cpp', '.hpp')):
                with open(os.path.join(folder, name), encoding='utf-8') as file:
                    text = file.read()
                for found in TEST.finditer(text):
                    end = text.find('\n}\n', found.end())
                    tests[f'{found[1]}.{found[2]}'] = text[found.end():end]
    return tests


def code_of(path):
    """Lines without comments and attributes."""
    with open(path, encoding='utf-8') as file:
        return [re.sub(r'\[\[.*?\]\] ?', '', line.rstrip('\n').split('//')[0]).replace('decltype(auto)', 'auto')
                for line in file]


def has_word(text, word):
    return re.search(r'(?<!\w)' + re.escape(word) + r'(?!\w)', text) is not None


def line_of(lines, name):
    """The number of the line that publicly declares `name`; None if there is none."""
    path, _, parameters = name.partition('(')
    owner, _, member = path.rpartition('::')
    if path == name and not owner:
        return first_match(lines, CLASS.format(member))
    after = r'\(' + re.escape(parameters.removeprefix(')'))
    if path == name:  # a function, a member of data, or an enumerator
        after = r'(?:\(|;| =|,|$)'
    pattern = r'(?:[^ (={][^(={]* )?[&*]?' + member + after
    if not owner:
        return first_match(lines, pattern)
    first = first_match(lines, CLASS.format(owner))
    if first is None:
        return None
    last = next(i for i in range(first, len(lines)) if lines[i].startswith(('};', ' private:', ' protected:')))
    line = first_match(lines[first:last], '  ' + pattern)
    return None if line is None else first + line


def first_match(lines, pattern):
    return next((i for i, line in enumerate(lines, 1) if re.match(pattern, line)), None)


class Checker:
    def __init__(self, root):
        self.tests = tests_of(root)
        include = os.path.join(root, 'include/lockstep')
        self.files = {os.path.relpath(os.path.join(folder, name), include): code_of(os.path.join(folder, name))
                      for folder, _, names in os.walk(include) for name in names if name.endswith('.hpp')}

    def place(self, declaration):
        """The header and line of `declaration`; the line is None if it is not declared."""
        header, name = declaration.split(' ', 1)
        return header, line_of(self.files.get(header, []), name)

    def faults(self, declaration, test, word):
        header, line = self.place(declaration)
        if line is None:
            yield f'include/lockstep/{header} does not declare {declaration.split(" ", 1)[1]}'
        if test not in self.tests:
            yield f'there is no test {test} in tests/'
        elif not has_word(self.tests[test], word):
            yield f'the test {test} does not contain {word}'


    def faults_of_later(self, word):
        for header, lines in sorted(self.files.items()):
            if any(has_word(line, word) for line in lines):
                yield f'include/lockstep/{header} has {word} now: move it from LATER to a row of PAGES'


def last_word(declaration):
    return re.split(r' |::', declaration.partition('(')[0])[-1]


def check(checker):
    results = []
    for page, table in PAGES:
        for name, declaration, test, *word in table:
            faults = checker.faults(declaration, test, word[0] if word else last_word(declaration))
            results.append((f'{page}: {name}', list(faults)))
    results += [(f'{word} comes later', list(checker.faults_of_later(word))) for word in LATER]
    print(f'1..{len(results)}')
    for number, (name, faults) in enumerate(results, 1):
        print(f'{"not ok" if faults else "ok"} {number} - {name}')
        for fault in faults:
            print(f'# {fault}')
    return 1 if any(faults for _, faults in results) else 0


def print_table(checker):
    for page, table in PAGES:
        print(f'\n| {page} | declared in include/lockstep/ | test |\n|---|---|---|')
        for name, declaration, test, *_ in table:
            header, line = checker.place(declaration)
            print(f'| `{name}` | `{header}:{line}` | `{test}` |')
    if LATER:
        print(f'\nNot declared yet: {", ".join(f"`{word}`" for word in LATER)}.')
    return 0


def main():
    words = [word for word in sys.argv[1:] if word != '--table']
    checker = Checker(words[0] if words else os.path.join(os.path.dirname(os.path.abspath(__file__)), '../..'))
    return print_table(checker) if '--table' in sys.argv else check(checker)


if __name__ == '__main__':
    sys.exit(main())
