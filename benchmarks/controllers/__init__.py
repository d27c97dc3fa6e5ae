"""The placement controller as a process, on a kube-apiserver with etcd or on the embedded hub."""
