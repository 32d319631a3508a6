package liquid

import (
	"regexp"
	"strings"

	iso "golang.org/x/text/currency"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

func isCurrency(code string) bool {
	_, err := iso.ParseISO(code)
	return err == nil && strings.ToUpper(code) == code
}

// amountText is a text that is an amount of money.
var amountText = regexp.MustCompile(`^\s*[-+]?\d{1,30}(\.\d{1,30})?\s*$`)

// money writes an amount in a currency, as English has it: the sign, the currency's symbol, or
// its code where it has none, and the amount with as many decimals as the currency has,
// rounded half away from zero. What is no number stays as it is.
func money(r *run, v any, a []any) any {
	switch x := v.(type) {
	case int, float64:
	case string:
		if !amountText.MatchString(x) {
			return v
		}
		v = strings.TrimPrefix(strings.TrimSpace(x), "+")
	default:
		return v
	}
	unit := iso.MustParseISO(textOf(a[0])) // check has read it
	scale, _ := iso.Standard.Rounding(unit)
	amount := r.numberOf(v).rat
	digits := absolute(amount).FloatString(scale)
	whole, rest := digits, ""
	if at := strings.IndexByte(digits, '.'); at >= 0 {
		whole, rest = digits[:at], digits[at:]
	}
	for at := len(whole) - 3; at > 0; at -= 3 {
		whole = whole[:at] + "," + whole[at:]
	}
	sign := ""
	if amount.Sign() < 0 && strings.Trim(digits, "0.") != "" {
		sign = "-"
	}
	symbol := message.NewPrinter(language.English).Sprint(iso.NarrowSymbol(unit))
	if symbol == unit.String() {
		symbol += "\u00a0"
	}
	return sign + symbol + whole + rest
}
