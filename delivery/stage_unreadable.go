package delivery

import (
	"context"

	"waypost"
)

// holdUnreadable defers those whose stored message cannot be decrypted: this process
// may lack a key that others have, or that comes back, and the rest of the batch does
// not wait for it.
func holdUnreadable(ctx context.Context, r *run, due []*item) ([]*item, error) {
	var going, unreadable []*item
	for _, it := range due {
		if it.stored == nil || it.stored.Unreadable == nil {
			going = append(going, it)
			continue
		}
		unreadable = append(unreadable, it)
		r.log.Warn("a message cannot be read", "message", it.stored.MessageID, "enrollment", it.EnrollmentID, "error", it.stored.Unreadable)
	}
	return going, r.holdBack(ctx, unreadable, waypost.DeferUnreadable, 0)
}
