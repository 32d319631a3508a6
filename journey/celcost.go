package journey

import (
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// maxCost bounds the work of one condition: a unit is a step, or ten bytes that a
// call looks at. It is a few milliseconds.
const maxCost = 50_000

// dateCost is the price of reading a text as a date in all the ways that there are.
const dateCost = 500

// callCost prices a call by the size of its arguments. CEL's own prices go by the
// types that the checker knows, and our members have none: it would price every
// call at one.
type callCost struct{}

// CallCost returns the price of one call.
func (callCost) CallCost(function, _ string, args []ref.Val, result ref.Val) *uint64 {
	cost := uint64(1)
	if isRecordFunction(function) { // it looks up what was read before
		return &cost
	}
	for _, arg := range args {
		cost += valueCost(arg, maxCost)
	}
	if s, ok := result.(types.String); ok {
		cost += valueCost(s, maxCost)
	}
	if function == overloads.Matches && len(args) == 2 {
		cost += 10 * valueCost(args[0], maxCost) * valueCost(args[1], maxCost)
	}
	switch function {
	case dateFunction, fnAnyDay, fnDaysUntil, fnDaysSince, overloads.TypeConvertTimestamp:
		cost += dateCost
	}
	return &cost
}

// valueCost is the price of looking at all of a value; it stops counting beyond
// limit.
func valueCost(v ref.Val, limit uint64) uint64 {
	switch v := v.(type) {
	case types.String:
		return uint64(len(v)) / 10
	case types.Bytes:
		return uint64(len(v)) / 10
	case traits.Mapper:
		return elementsCost(v.Iterator(), v.Find, limit)
	case traits.Lister:
		return elementsCost(v.Iterator(), nil, limit)
	}
	return 0
}

func elementsCost(i traits.Iterator, find func(ref.Val) (ref.Val, bool), limit uint64) uint64 {
	var cost uint64
	for i.HasNext() == types.True && cost <= limit {
		e := i.Next()
		cost += 1 + valueCost(e, limit-min(cost, limit))
		if find != nil {
			if member, ok := find(e); ok {
				cost += valueCost(member, limit-min(cost, limit))
			}
		}
	}
	return cost
}
