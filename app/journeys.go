package app

import (
	"waypost/journey"
)

// CheckJourney reports everything that keeps a journey's definition (JSON) from being
// published, as the gateway does when it is: a BadRequest with a detail for each
// problem, nil if there is none. The functions tell whether a webhook and a journey
// that it names exist; nil takes all of them for existing.
func CheckJourney(definition []byte, webhookExists, journeyExists func(id string) bool) error {
	d, problems := journey.Parse(definition)
	if d != nil {
		problems = d.Check(webhookExists, journeyExists)
	}
	return problems.Err("")
}
