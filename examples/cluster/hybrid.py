"""Which processes share a batch, in each layout: the loss is given the group over which gradients are averaged.

Four processes on this machine: torchrun --nproc-per-node 4 examples/cluster/hybrid.py
"""

import torch
import torch.distributed as dist
import torch.distributed.nn.functional  # before there is a group, which it would keep
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

from orthoframe import FrameHead, SupConLoss

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def sub_groups(network: nn.Module) -> tuple[nn.Module, SupConLoss]:
    """A model for each half of the processes: DDP's group."""
    world = dist.get_world_size()
    halves = [list(range(world // 2)), list(range(world // 2, world))]
    half, _ = dist.new_subgroups_by_enumeration(halves)
    return DistributedDataParallel(network, process_group=half), SupConLoss(group=half)


def tensor_parallel(network: nn.Module) -> tuple[nn.Module, SupConLoss]:
    """Two processes share each layer, and have the same rows: the group of the data dimension."""
    mesh = init_device_mesh(DEVICE, (dist.get_world_size() // 2, 2), mesh_dim_names=("dp", "tp"))
    parallelize_module(network, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    return fully_shard(network, mesh=mesh["dp"]), SupConLoss(group=mesh["dp"].get_group())


def sharded(network: nn.Module) -> tuple[nn.Module, SupConLoss]:
    """FSDP2 over all processes, each with its own rows: no group."""
    return fully_shard(network), SupConLoss()


def hybrid_sharded(network: nn.Module) -> tuple[nn.Module, SupConLoss]:
    """HSDP: parameters are sharded in pairs, but gradients are averaged over all processes."""
    mesh = init_device_mesh(DEVICE, (dist.get_world_size() // 2, 2), mesh_dim_names=("replicate", "shard"))
    return fully_shard(network, mesh=mesh), SupConLoss(group=dist.group.WORLD)


def main() -> None:
    """A step in each layout."""
    for layout in (sharded, sub_groups, tensor_parallel, hybrid_sharded):
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4), FrameHead()).to(DEVICE)
        encoder, criterion = layout(network)
        rank = dist.get_rank(criterion.group)  # those of a group have different rows, and its replicas the same
        rows: Tensor = torch.randn(6, 8, generator=torch.Generator().manual_seed(rank)).to(DEVICE)
        loss = criterion(encoder(rows), torch.arange(6, device=DEVICE) % 3)
        loss.backward()
        if dist.get_rank() == 0:
            print(f"{layout.__name__}: {dist.get_world_size(criterion.group)} processes share a batch")


if __name__ == "__main__":
    dist.init_process_group("nccl" if DEVICE == "cuda" else "gloo")
    if DEVICE == "cuda":
        torch.cuda.set_device(dist.get_node_local_rank())
    main()
    dist.destroy_process_group()
