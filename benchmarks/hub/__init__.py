"""The embedded hub compared with kube-apiserver and etcd, and its response times under attack."""
