! SPDX-FileCopyrightText: The lockstep authors
! SPDX-License-Identifier: Apache-2.0
!
! The module for Fortran: mpirun -n 2 example-heat. A rod of 60 cells, divided among the ranks, is hot in its first cell
! and cold in all others; it is insulated, so the total stays.

#define LOCKSTEP_HERE file=__FILE__, line=__LINE__

program heat
  use, intrinsic :: iso_fortran_env, only: real64
  use lockstep
  implicit none
  integer, parameter :: cells = 60, steps = 1000
  type(lockstep_environment) :: environment
  type(lockstep_communicator) :: world
  integer :: rank, ranks, own, step
  real(real64), allocatable :: rod(:), next(:), ends(:, :)
  real(real64) :: total

  call lockstep_environment_create(environment)  ! initializes MPI
  call lockstep_world(world)
  call lockstep_rank(world, rank)
  call lockstep_size(world, ranks)
  own = cells / ranks
  if (own * ranks /= cells) error stop 'the number of ranks must divide 60, the number of cells'
  allocate (rod(0:own + 1), next(own), ends(2, 0:ranks - 1))  ! rod(0) and rod(own + 1) belong to the neighbours
  rod = 0
  if (rank == 0) rod(1) = 1

  do step = 1, steps
    call lockstep_all_gather(world, [rod(1), rod(own)], ends, LOCKSTEP_HERE)
    rod(0) = merge(ends(2, max(rank - 1, 0)), rod(1), rank > 0)
    rod(own + 1) = merge(ends(1, min(rank + 1, ranks - 1)), rod(own), rank < ranks - 1)
    next = rod(1:own) + 0.4_real64 * (rod(0:own - 1) - 2 * rod(1:own) + rod(2:own + 1))
    rod(1:own) = next
  end do
  total = sum(rod(1:own))
  call lockstep_all_reduce(world, total, lockstep_sum, LOCKSTEP_HERE)
  call lockstep_broadcast(world, rod(1), root=0)
  if (rank == 0) print '(a, f8.6, a, f8.6)', 'total ', total, ', first cell ', rod(1)

  call lockstep_communicator_free(world)
  call lockstep_environment_free(environment)
end program
