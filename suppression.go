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
	given := 0
	for _, address := range []*string{mobilePhone, email, externalID} {
		if address != nil {
			given++
		}
	}
	if given != 1 {
		p.Add(DetailNullValue, "", "must have exactly one of mobilePhone, email and externalId")
		return s
	}
	address := ReadAddress(p, mobilePhone, email, externalID, phoneRegion)
	if address == (EventLead{}) {
		return s
	}
	return Suppression{Channel: channel, Email: address.Email, ExternalID: address.ExternalID, MobilePhone: address.Phone}
}

// ReadAddress reads the one of a lead's addresses that is given, as leads hold it: the address must be
// one that a lead can have. It is zero if that reports something.
func ReadAddress(p *Problems, mobilePhone, email, externalID *string, phoneRegion string) (address EventLead) {
	sample := LeadFields{Name: "-", Email: email, ExternalID: externalID}
	if mobilePhone != nil {
		sample.MobilePhone = []string{*mobilePhone}
	}
	phones, err := sample.Validate(phoneRegion, time.Time{})
	var faults Problems
	faults.AddAll(err)
	for _, fault := range faults {
		fault.Target = strings.TrimSuffix(fault.Target, "[0]")
		*p = append(*p, fault)
	}
	switch {
	case len(faults) > 0:
	case email != nil:
		address.Email = *sample.Email
	case externalID != nil:
		address.ExternalID = *sample.ExternalID
	default:
		address.Phone = phones[0]
	}
	return address
}
