"""TVM's RPC tracker and servers: started, watched and cleaned up."""
