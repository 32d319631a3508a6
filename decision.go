package waypost

// FrequencyCap bounds how many touchpoints a lead gets from all journeys of an
// organisation and stage together (docs/contract.md, "Definition"): at a time t at most
// Touchpoints of them have gone out after t-Per, that of t included. The zero
// value is no bound.
type FrequencyCap struct {
	Touchpoints int      `json:"touchpoints"` // 1 to 1000
	Per         Duration `json:"per"`         // 1 s to 366 days, a window that slides
}

// None tells whether there is no bound.
func (c FrequencyCap) None() bool { return c.Touchpoints == 0 }

// Why a touchpoint is skipped for good.
const (
	SkipFrequencyCap = "frequencyCap" // the lead has got as many as its journey allows
	SkipConsent      = "consent"      // the webhook requires a consent that the lead has not given
	SkipSuppressed   = "suppressed"   // the lead is suppressed in the webhook's channel
)

// SkipReasons lists them.
var SkipReasons = []string{SkipFrequencyCap, SkipConsent, SkipSuppressed}

// ExplainSkip says a reason in words; "" for anything else.
func ExplainSkip(reason string) string {
	switch reason {
	case SkipFrequencyCap:
		return "not sent: the lead had got as many messages as the journey allows"
	case SkipConsent:
		return "not sent: the lead has not agreed to the channel, which the webhook requires"
	case SkipSuppressed:
		return "not sent: the lead is suppressed in the channel"
	}
	return ""
}

// DeferQuietHours is the reason of a touchpoint that goes out when quiet hours end.
const DeferQuietHours = "quietHours"
