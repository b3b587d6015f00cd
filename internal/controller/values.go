package controller

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func deref[T any](p *T) (zero T) {
	if p == nil {
		return zero
	}
	return *p
}

func derefOr[T any](p *T, fallback T) T {
	if p == nil {
		return fallback
	}
	return *p
}

func duration(d *metav1.Duration) time.Duration { return deref(d).Duration }

func keyOf(o client.Object) client.ObjectKey { return client.ObjectKeyFromObject(o) }
