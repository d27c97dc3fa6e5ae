"""The placement controller as its own process, on a real kube-apiserver + etcd or on the embedded hub."""
