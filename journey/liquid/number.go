package liquid

import (
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

// number is an exact number: decimals are calculated as they are written, so that
// 10.1 - 2.2 is 7.9. Operations on whole numbers are whole.
type number struct {
	rat   *big.Rat
	whole bool
}

var (
	decimalText = regexp.MustCompile(`^-?\d+\.\d+$`)
	wholeText   = regexp.MustCompile(`^[-+]?\d+`)
)

// numberOf is a value as a number. A text counts with the digits that it begins
// with; any other value counts as 0.
func (r *run) numberOf(v any) number {
	r.spend(numberWork)
	switch v := v.(type) {
	case int:
		return number{new(big.Rat).SetInt64(int64(v)), true}
	case float64:
		rat, ok := new(big.Rat).SetString(strconv.FormatFloat(v, 'g', -1, 64))
		if !ok {
			r.fail(errNumber)
		}
		return number{rat, false}
	case string:
		s, whole := strings.TrimSpace(v), false
		if !decimalText.MatchString(s) {
			s, whole = wholeText.FindString(s), true
		}
		if len(s) > maxDigits {
			r.fail(errNumber)
		}
		if rat, ok := new(big.Rat).SetString(s); ok {
			return number{rat, whole}
		}
	}
	return number{new(big.Rat), true}
}

// value is the number as a value of templates.
func (r *run) value(n number) any {
	if n.whole {
		if !n.rat.IsInt() || !n.rat.Num().IsInt64() {
			r.fail(errNumber)
		}
		return int(n.rat.Num().Int64())
	}
	f, _ := n.rat.Float64()
	if f-f != 0 { // infinite
		r.fail(errNumber)
	}
	return f
}

// floor rounds down.
func floor(x *big.Rat) *big.Rat {
	// Euclidean division by the denominator, which is positive, rounds down.
	return new(big.Rat).SetInt(new(big.Int).Div(x.Num(), x.Denom()))
}

// intOf is a value as an integer; false for one that is none.
func intOf(v any) (int, bool) {
	switch v := v.(type) {
	case int:
		return v, true
	case string:
		n, err := strconv.Atoi(strings.TrimSpace(v))
		return n, err == nil
	}
	return 0, false
}

// arithmetic makes a filter of two numbers.
func arithmetic(do func(z, x, y *big.Rat) *big.Rat) filterFunc {
	return func(r *run, v any, a []any) any {
		x, y := r.numberOf(v), r.numberOf(a[0])
		return r.value(number{do(new(big.Rat), x.rat, y.rat), x.whole && y.whole})
	}
}

// divide of two whole numbers rounds down.
func divide(r *run, v any, a []any) any {
	x, y := r.numberOf(v), r.numberOf(a[0])
	q, whole := new(big.Rat).Quo(x.rat, y.rat), x.whole && y.whole
	if whole {
		q = floor(q)
	}
	return r.value(number{q, whole})
}

// modulo has the sign of the divisor.
func modulo(z, x, y *big.Rat) *big.Rat {
	return z.Sub(x, new(big.Rat).Mul(y, floor(new(big.Rat).Quo(x, y))))
}

// bound makes at_least (sign 1) and at_most (sign -1).
func bound(sign int) filterFunc {
	return func(r *run, v any, a []any) any {
		x, y := r.numberOf(v), r.numberOf(a[0])
		if x.rat.Cmp(y.rat)*sign < 0 {
			return r.value(y)
		}
		return r.value(x)
	}
}

// onNumber makes a filter of one number whose result is whole if whole says so, or
// the number is.
func onNumber(whole bool, do func(x *big.Rat) *big.Rat) filterFunc {
	return func(r *run, v any, _ []any) any {
		x := r.numberOf(v)
		return r.value(number{do(x.rat), x.whole || whole})
	}
}

func absolute(x *big.Rat) *big.Rat { return new(big.Rat).Abs(x) }

func ceil(x *big.Rat) *big.Rat {
	down := floor(new(big.Rat).Neg(x))
	return down.Neg(down)
}

// round rounds half away from zero, to a number of decimals: of tens, hundreds and
// so on if it is negative.
func round(r *run, v any, a []any) any {
	x, places := r.numberOf(v), 0
	if len(a) > 0 {
		n, _ := floor(r.numberOf(a[0]).rat).Float64()
		places = int(max(-400, min(400, n)))
	}
	unit := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(places, -places))), nil))
	if places > 0 {
		unit.Inv(unit)
	}
	scaled := absolute(new(big.Rat).Quo(x.rat, unit))
	rounded := floor(scaled.Add(scaled, big.NewRat(1, 2)))
	if x.rat.Sign() < 0 {
		rounded.Neg(rounded)
	}
	return r.value(number{rounded.Mul(rounded, unit), x.whole || places <= 0})
}

// sum adds up a list, or a member of each of its elements.
func sum(r *run, v any, a []any) any {
	total := number{new(big.Rat), true}
	for _, e := range r.listOf(v) {
		for _, e := range r.listOf(r.keyOf(e, a)) {
			x := r.numberOf(e)
			total.rat.Add(total.rat, x.rat)
			total.whole = total.whole && x.whole
		}
	}
	return r.value(total)
}
