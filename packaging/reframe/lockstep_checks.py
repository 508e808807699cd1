# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""ReFrame checks of an installed lockstep: reframe -c packaging/reframe -r. Not run here.

The programs are found in PATH; `modules` is the site's module, if it has one: reframe -S modules=lockstep.
"""

import reframe as rfm
import reframe.utility.sanity as sn


class LockstepCheck(rfm.RunOnlyRegressionTest):
    valid_systems = ['*']
    valid_prog_environs = ['*']
    num_tasks = 4
    num_tasks_per_node = 2
    time_limit = '10m'


@rfm.simple_test
class LockstepHello(LockstepCheck):
    """Ranks of two nodes add their numbers."""

    executable = 'lockstep-hello'

    @sanity_function
    def adds(self):
        return sn.assert_found(r'^4 replicas, sum of ids 6$', self.stdout)


@rfm.simple_test
class LockstepHelloOnOneNode(LockstepCheck):
    """The same through shared memory alone."""

    executable = 'lockstep-hello'
    num_tasks_per_node = 4

    @sanity_function
    def adds(self):
        return sn.assert_found(r'^4 replicas, sum of ids 6$', self.stdout)
