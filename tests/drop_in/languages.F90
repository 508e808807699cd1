! SPDX-FileCopyrightText: The lockstep authors
! SPDX-License-Identifier: Apache-2.0
!
! Collectives from Fortran, also in place, by all three interfaces of MPI. Prints "right" or "wrong" for each on rank 0.

module interfaces
  implicit none
contains
  subroutine by_header(right)
    include 'mpif.h'
    logical, intent(out) :: right
    integer :: error, rank, ranks, sums(2)
    double precision :: value
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
    sums = [rank + 1, 1]
    call MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
    value = rank
    call MPI_Bcast(value, 1, MPI_DOUBLE_PRECISION, ranks - 1, MPI_COMM_WORLD, error)
    right = sums(1) == ranks * (ranks + 1) / 2 .and. sums(2) == ranks .and. nint(value) == ranks - 1
  end subroutine

  subroutine by_module(right)
    use mpi
    logical, intent(out) :: right
    integer :: error, rank, ranks, sums(2)
    double precision :: value
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
    sums = [rank + 1, 1]
    call MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
    value = rank
    call MPI_Bcast(value, 1, MPI_DOUBLE_PRECISION, ranks - 1, MPI_COMM_WORLD, error)
    right = sums(1) == ranks * (ranks + 1) / 2 .and. sums(2) == ranks .and. nint(value) == ranks - 1
  end subroutine

  subroutine by_module_2008(right)
    use mpi_f08
    logical, intent(out) :: right
    integer :: rank, ranks, sums(2)
    logical :: all_of, any_of
    double precision :: value
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    sums = [rank + 1, 1]
    call MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    value = rank
    call MPI_Bcast(value, 1, MPI_DOUBLE_PRECISION, ranks - 1, MPI_COMM_WORLD)
    all_of = rank == 0
    any_of = rank == 0
    call MPI_Allreduce(MPI_IN_PLACE, all_of, 1, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD)
    call MPI_Allreduce(MPI_IN_PLACE, any_of, 1, MPI_LOGICAL, MPI_LOR, MPI_COMM_WORLD)
    right = sums(1) == ranks * (ranks + 1) / 2 .and. sums(2) == ranks .and. nint(value) == ranks - 1 .and. &
            any_of .and. .not. all_of
  end subroutine
end module

program languages
  use mpi
  use interfaces
  implicit none
  integer :: error, rank
  logical :: right(3)
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call by_header(right(1))
  call by_module(right(2))
  call by_module_2008(right(3))
  if (rank == 0) print '(3L2)', right
  call MPI_Finalize(error)
end program
