package embedded

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/blevesearch/bleve/v2/index/scorch"
	segment "github.com/blevesearch/scorch_segment_api/v2"
)

// orderCache keeps the places of documents among hits in memory, about 20 bytes a
// document. On the disk they are compressed, and reading them was half of what a
// search with many hits cost. Segments never change.
type orderCache struct {
	mu       sync.Mutex
	segments map[uint64]func() (*orders, error)
}

// orders are the values of the field fieldOrder of a segment.
type orders struct {
	text string
	ends []uint32 // of each document's part of the text
}

func (o *orders) at(number uint32) string {
	start := uint32(0)
	if number > 0 {
		start = o.ends[number-1]
	}
	return o.text[start:o.ends[number]]
}

// of returns the orders of a segment, which it reads once.
func (c *orderCache) of(s *scorch.SegmentSnapshot) (*orders, error) {
	c.mu.Lock()
	read, ok := c.segments[s.Id()]
	if !ok {
		if c.segments == nil {
			c.segments = map[uint64]func() (*orders, error){}
		}
		read = sync.OnceValues(func() (*orders, error) { return readOrders(s.Segment()) })
		c.segments[s.Id()] = read
	}
	c.mu.Unlock()
	return read()
}

// dropOthers drops the orders of all other segments: they were merged.
func (c *orderCache) dropOthers(current []*scorch.SegmentSnapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.segments) <= len(current) {
		return
	}
	old := c.segments
	c.segments = make(map[uint64]func() (*orders, error), len(current))
	for _, s := range current {
		if read, ok := old[s.Id()]; ok {
			c.segments[s.Id()] = read
		}
	}
}

func readOrders(s segment.Segment) (*orders, error) {
	values, ok := s.(segment.DocValueVisitable)
	if !ok {
		return nil, fmt.Errorf("segments of type %T", s)
	}
	var text strings.Builder
	ends := make([]uint32, s.Count())
	add := func(_ string, order []byte) { text.Write(order) }
	var state segment.DocVisitState
	var err error
	for number := range ends {
		before := text.Len()
		if state, err = values.VisitDocValues(uint64(number), []string{fieldOrder}, add, state); err != nil {
			return nil, err
		}
		if text.Len() == before {
			return nil, errors.New("a document has none")
		}
		ends[number] = uint32(text.Len())
	}
	return &orders{strings.Clone(text.String()), ends}, nil
}
