package waypost

import (
	"strings"
	"time"
)

// MaxChannel bounds the name of a channel, in characters.
const MaxChannel = 40

// Suppression keeps all touchpoints of a channel from whoever has an address, whether there is
// such a lead or not. Exactly one of the addresses is set.
type Suppression struct {
	ID          string
	Channel     string
	MobilePhone string // E.164
	Email       string // case aside
	ExternalID  string
	CreatedAt   time.Time
	// Existed says that it was there before, to who creates it.
	Existed bool
}

// AddressKind names the member that holds the address.
func (s Suppression) AddressKind() string {
	switch {
	case s.MobilePhone != "":
		return "mobilePhone"
	case s.Email != "":
		return "email"
	}
	return "externalId"
}

// SuppressionFilter selects suppressions. Zero members do not filter.
type SuppressionFilter struct {
	Channel string
	LeadsID int64 // those that concern the lead
}

// CheckChannel checks the name of a channel: in lower case, so that SMS and sms are not two.
// It tells whether there is no fault.
func CheckChannel(p *Problems, target, channel string) bool {
	switch {
	case !isName(channel, MaxChannel):
		p.Add(DetailInvalidFormat, target, "a channel must be 1 to %d printable characters", MaxChannel)
	case channel != strings.ToLower(CleanKey(channel)):
		p.Add(DetailInvalidFormat, target, "a channel must be in lower case, without blanks at its ends: %s", strings.ToLower(CleanKey(channel)))
	default:
		return true
	}
	return false
}

// NewSuppression makes a suppression of a channel and one address, both as a client writes
// them, and reports what is wrong. phoneRegion is as for LeadFields.Validate.
func NewSuppression(p *Problems, channel string, mobilePhone, email, externalID *string, phoneRegion string) (s Suppression) {
	if channel == "" {
		p.Add(DetailNullValue, "channel", "is missing")
	} else {
		CheckChannel(p, "channel", channel)
	}
	// The address must be one that a lead can have, so a lead is made of it and checked.
	sample, given := LeadFields{Name: "-", Email: email, ExternalID: externalID}, 0
	if mobilePhone != nil {
		sample.MobilePhone = []string{*mobilePhone}
	}
	for _, address := range []*string{mobilePhone, email, externalID} {
		if address != nil {
			given++
		}
	}
	if given != 1 {
		p.Add(DetailNullValue, "", "must have exactly one of mobilePhone, email and externalId")
		return s
	}
	phones, err := sample.Validate(phoneRegion, time.Time{})
	var faults Problems
	faults.AddAll(err)
	for _, fault := range faults {
		fault.Target = strings.TrimSuffix(fault.Target, "[0]")
		*p = append(*p, fault)
	}
	if len(faults) > 0 {
		return s
	}
	s.Channel = channel
	switch {
	case email != nil:
		s.Email = *sample.Email
	case externalID != nil:
		s.ExternalID = *sample.ExternalID
	default:
		s.MobilePhone = phones[0]
	}
	return s
}
