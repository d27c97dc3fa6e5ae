"""What the embedded hub costs, beside kube-apiserver + etcd, and how long its users wait under attack."""
