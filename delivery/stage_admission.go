package delivery

import "context"

// takeAdmission holds back what the webhook's limits do not admit.
func takeAdmission(ctx context.Context, r *run, due []*item) ([]*item, error) {
	granted, reason, wait := r.admit.Admit(ctx, r.hook, len(due))
	r.admitted = granted
	if granted == len(due) {
		return due, nil
	}
	return due[:granted], r.keepOut(ctx, due[granted:], reason, wait)
}

// returnUnused gives back what was admitted and not started. A POST that was started
// is given back when it has ended, and reports to the breaker.
func (r *run) returnUnused(ctx context.Context) {
	if unused := r.admitted - r.started; unused > 0 {
		r.admit.Done(r.hook.ID, unused)
	}
	if r.started == 0 && r.pass != nil {
		r.breakers.Return(context.WithoutCancel(ctx), r.pass.circuit, r.pass.ticket)
	}
}
