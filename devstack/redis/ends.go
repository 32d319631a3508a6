package redis

import (
	"container/heap"
	"time"
)

// ends are the keys that end, the first of them first.
type ends struct {
	of    map[string]*end
	queue queue
}

type end struct {
	key   string
	at    time.Time
	place int // in the queue
}

func (e *ends) set(key string, at time.Time) {
	if known := e.of[key]; known != nil {
		known.at = at
		heap.Fix(&e.queue, known.place)
		return
	}
	added := &end{key: key, at: at}
	e.of[key] = added
	heap.Push(&e.queue, added)
}

func (e *ends) drop(key string) {
	if known := e.of[key]; known != nil {
		heap.Remove(&e.queue, known.place)
		delete(e.of, key)
	}
}

// ended takes the first key out if it has ended by now.
func (e *ends) ended(now time.Time) (key string, ended bool) {
	if len(e.queue) == 0 || e.queue[0].at.After(now) {
		return "", false
	}
	key = e.queue[0].key
	e.drop(key)
	return key, true
}

// queue is a heap.Interface.
type queue []*end

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

func (q *queue) Push(x any) {
	e := x.(*end)
	e.place = len(*q)
	*q = append(*q, e)
}

func (q *queue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return e
}
