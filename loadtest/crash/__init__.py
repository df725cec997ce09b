"""make crash: opens one crash window on purpose, and shows that nothing is lost or doubled.

windows.py   what makes a process pass each failpoint
sweep.py     arm, provoke, watch it die and come back, settle, audit
"""
